"""Texts of several scripts and lengths on which encoders are compared if the user gives none."""

from __future__ import annotations

from mirrorbench.data.cards import EMBEDDED_DATA

N_SENTENCES = 120
"""Number of English sentences."""
SENTENCES_OF_LONG_TEXTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Numbers of sentences that are joined to long texts, the longest of some 1,900 tokens; two texts of each."""

OTHER_SCRIPTS = (
    "Der Zug nach München fährt heute von Gleis sieben.",
    "Où est-ce que je peux acheter des timbres ?",
    "El niño añadió azúcar al café y sonrió.",
    "A reunião foi adiada para a próxima terça-feira.",
    "Zażółć gęślą jaźń, a potem idź spać.",
    "Příliš žluťoučký kůň běžel přes pole.",
    "Bu sabah İstanbul'da yağmur yağıyor.",
    "Cuộc họp bắt đầu lúc chín giờ sáng.",
    "Kuusi palaa, mutta järvi on jäässä.",
    "Я забыл ключи на столе в кухне.",
    "Українська мова має кличний відмінок.",
    "Цената на хляба отново се покачи.",
    "Το πλοίο φεύγει από το λιμάνι το βράδυ.",
    "הרכבת האחרונה יוצאת בחצות.",
    "نسيت مفاتيحي على الطاولة في المطبخ.",
    "قیمت نان دوباره بالا رفت.",
    "मुझे कल सुबह जल्दी उठना है।",
    "আগামীকাল বৃষ্টি হতে পারে।",
    "நாளை காலை பள்ளி விடுமுறை.",
    "రేపు ఉదయం వర్షం పడవచ్చు.",
    "พรุ่งนี้เช้าฉันต้องตื่นเช้า",
    "明天早上我要早起。",
    "會議改到下星期二下午三點。",
    "明日の朝は早く起きなければならない。",
    "東京タワーの高さは333メートルです。",
    "내일 아침에는 일찍 일어나야 한다.",
    "ნაძვის ხე ბაღში დგას.",
    "Գնացքը մեկնում է յոթին։",
    "ነገ ጠዋት ዝናብ ሊዘንብ ይችላል።",
    "ពេលព្រឹក ខ្ញុំ ផឹក កាហ្វេ។",
)
"""Sentences in other languages and scripts, written for this purpose."""

UNUSUAL_TEXTS = (
    "a",
    "Yes.",
    "42",
    "3.14159",
    "+44 20 7946 0018",
    "2024-02-29T12:00:00Z",
    "NATO",
    "iPhone 15 Pro Max, 256 GB",
    "THE DEADLINE IS TOMORROW",
    "  spaces   at both ends  ",
    "first line\nsecond line",
    "a column\tand another",
    "café and cafe\u0301",
    "“Curly quotes” – and dashes — too…",
    "ﬁne ligature, ½ cup, x² + y²",
    "😀 👍🏽 🏳️‍🌈",
    "https://example.org/path?query=1#part",
    "name@example.org",
    "def add(a, b):\n    return a + b",
    "SELECT id FROM users WHERE age > 30;",
    "C8H10N4O2",
    "IL-2Rα/CD25",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "!!!???...",
    "[CLS] and </s> as words",
    "query: what is a prompt?",
)
"""Short, long and odd texts, written for this purpose."""


def included_texts() -> list[str]:
    """Return the texts: English sentences of Wikipedia, other scripts, unusual texts, and long ones."""
    file = EMBEDDED_DATA / "corpora" / "sentences.txt"
    sentences = file.read_text(encoding="utf-8").splitlines()
    texts = [*sentences[:N_SENTENCES], *OTHER_SCRIPTS, *UNUSUAL_TEXTS]
    start = N_SENTENCES
    for n_sentences in SENTENCES_OF_LONG_TEXTS:
        for _ in range(2):
            texts.append(" ".join(sentences[start : start + n_sentences]))
            start += n_sentences
    return list(dict.fromkeys(texts))
