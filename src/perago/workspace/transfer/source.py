"""What is downloaded: the objects under a prefix of a commit."""

from dataclasses import dataclass

from perago.model import CommitId, ObjectInfo, ObjectPath, Repository
from perago.workspace.cache.listing_cache import ListedFile


@dataclass(frozen=True, slots=True)
class Source:
    repository: Repository
    commit: CommitId
    prefix: str
    """As returned by `path_mapping.listing_prefix`."""

    def info(self, file: ListedFile) -> ObjectInfo:
        """The object that becomes this file."""
        path = ObjectPath(self.prefix + file.path)
        return ObjectInfo(path, file.size, file.checksum, file.content_type, file.metadata, presigned_url=file.presigned_url)
