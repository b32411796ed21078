// How the search orders what it found: Sphinx's own values, but pages on the project itself come after those for readers.
const FOR_DEVELOPERS = /^(CHANGELOG|CONTRIBUTING|docs\/upgrading|docs\/computations|benchmarks\/|pretraining\/)/;

var Scorer = {
  score: ([document, title, anchor, description, score]) =>
    FOR_DEVELOPERS.test(document) ? score - 3 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
