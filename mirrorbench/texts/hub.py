"""An encoder directory on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from mirrorbench.core.errors import MirrorbenchError, UsageError


class UploadError(MirrorbenchError):
    """The encoder is on disk but could not be uploaded."""


def check_repo(repo: str, offline: bool) -> None:
    """Whether an upload can be tried at all, before anything is computed.

    Raises:
        UsageError: no name of a repository, or no network wanted.
    """
    from huggingface_hub.constants import is_offline_mode
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if offline or is_offline_mode():
        how = "--offline" if offline else "HF_HUB_OFFLINE"
        raise UsageError(f"--push-to-hub {repo}: {how} forbids every connection", "Leave one of them out.")
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UsageError(f"--push-to-hub {repo}: {str(error).splitlines()[0]}", "Write USER/NAME.") from error


def push(folder: Path, repo: str, private: bool = False) -> str:
    """Upload a directory, in a commit of its own; the repository is made if it is not there.

    Returns:
        The repository's address.

    Raises:
        UploadError: no network, no right to write; the directory stays as it is.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = HfApi(library_name="mirrorbench")
    try:
        url = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repo, folder_path=folder, commit_message="Encoder tuned with mirrorbench", ignore_patterns=[".*"]
        )
    except (OSError, HfHubHTTPError, LocalTokenNotFoundError, ValueError) as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise UploadError(
            f"{folder} could not be uploaded to {repo}: {type(error).__name__}: {first[:300]}",
            f"The encoder is in {folder}. Log in (hf auth login), then upload it: hf upload {repo} {folder}",
        ) from error
    return str(url)
