"""The official SDK of lakeFS, as a client that is independent of the one under test.

Import it where it is used: the SDK takes a second to load, and most processes of a test run need none.
"""

import mimetypes
import tempfile
from collections.abc import Mapping

from lakefs_sdk.api.branches_api import BranchesApi
from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.experimental_api import ExperimentalApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.refs_api import RefsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api.tags_api import TagsApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ForbiddenException
from lakefs_sdk.models.branch_protection_rule import BranchProtectionRule
from lakefs_sdk.models.commit import Commit
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.object_stats import ObjectStats
from lakefs_sdk.models.repository_creation import RepositoryCreation
from lakefs_sdk.models.tag_creation import TagCreation

from perago.dev.stack import Endpoints


class SdkClient:
    """One repository of a real lakeFS."""

    def __init__(self, stack: Endpoints, repository: str) -> None:
        self._repository = repository
        self._api = ApiClient(
            Configuration(host=f"{stack.lakefs_url}/api/v1", username=stack.access_key_id, password=stack.secret_access_key)
        )
        self._repositories = RepositoriesApi(self._api)
        self._objects = ObjectsApi(self._api)

    def create_repository(self) -> None:
        name = self._repository
        creation = RepositoryCreation(name=name, storage_namespace=f"local://{name}", default_branch="main")
        self._repositories.create_repository(creation)

    def delete_repository(self) -> None:
        self._repositories.delete_repository(self._repository, force=True)

    def put(self, branch: str, path: str, data: bytes, content_type: str) -> None:
        """The SDK uploads files, and takes the content type from their names."""
        with tempfile.NamedTemporaryFile(suffix=mimetypes.guess_extension(content_type)) as source:
            source.write(data)
            source.flush()
            self._objects.upload_object(self._repository, branch, path, content=source.name)

    def get(self, ref: str, path: str) -> bytes:
        return bytes(self._objects.get_object(self._repository, ref, path))

    def stats(self, ref: str) -> Mapping[str, ObjectStats]:
        found: dict[str, ObjectStats] = {}
        after = ""
        while True:
            page = self._objects.list_objects(self._repository, ref, amount=1000, after=after)
            found |= {item.path: item for item in page.results}
            if not page.pagination.has_more:
                return found
            after = page.pagination.next_offset

    def make_commit(self, branch: str, message: str) -> str:
        return CommitsApi(self._api).commit(self._repository, branch, CommitCreation(message=message)).id

    def commit(self, commit_id: str) -> Commit:
        return CommitsApi(self._api).get_commit(self._repository, commit_id)

    def newest_commit(self, branch: str) -> str:
        return RefsApi(self._api).log_commits(self._repository, branch, amount=1).results[0].id

    def head(self, branch: str) -> str:
        return BranchesApi(self._api).get_branch(self._repository, branch).commit_id

    def branches(self) -> list[str]:
        return [branch.id for branch in BranchesApi(self._api).list_branches(self._repository).results]

    def tag(self, name: str, ref: str) -> None:
        TagsApi(self._api).create_tag(self._repository, TagCreation(id=name, ref=ref))

    def tags(self) -> list[str]:
        return [tag.id for tag in TagsApi(self._api).list_tags(self._repository).results]

    def protect(self, branch: str) -> None:
        rules = [BranchProtectionRule(pattern=branch)]
        self._repositories.set_branch_protection_rules(self._repository, branch_protection_rule=rules)

    def refuses_reset(self, branch: str) -> bool:
        """Whether a rule of protection is applied to the branch; the attempt changes nothing."""
        try:
            ExperimentalApi(self._api).hard_reset_branch(self._repository, branch, branch)
        except ForbiddenException:
            return True
        return False

    def close(self) -> None:
        self._api.rest_client.pool_manager.clear()
