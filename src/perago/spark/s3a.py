"""Access to lakeFS through S3A: the URIs of a repository and the settings of a session."""

from urllib.parse import urlsplit

from perago.model import LakeAccess, Repository
from perago.spark import stream_jar

SIZED_STREAMS = {
    # S3A's default, the analytics stream, keeps an entry for every object that was read until the driver ends (HADOOP-20058), and
    # its first read of a large object takes longer than by ranges.
    "fs.s3a.input.stream.type": "custom",
    "fs.s3a.input.stream.custom.factory": stream_jar.FACTORY,
    # Objects up to this size are read with one request instead of three.
    "fs.s3a.prefetch.block.size": str(8 << 20),
}
"""For drivers that have Perago's jar."""
RANGES = {"fs.s3a.input.stream.type": "classic"}
"""For a Connect server, which does not have it."""
_COMMITTERS = {
    # Tasks upload without completing; the driver completes what it accepted. This is safe when executors die or race, and takes
    # one request per file, where a rename would copy every byte.
    "fs.s3a.committer.name": "magic",
    "fs.s3a.committer.magic.enabled": "true",
    "fs.s3a.committer.magic.track.commits.in.memory.enabled": "true",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}


def session_settings(repository: Repository, access: LakeAccess) -> dict[str, str]:
    """Settings for one attempt. Endpoint and credentials apply only to that repository and in this session."""
    bucket = f"fs.s3a.bucket.{repository}"
    return {
        **_COMMITTERS,
        # A known size, so that a download can verify a multipart upload.
        "fs.s3a.multipart.size": str(64 << 20),
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        f"{bucket}.endpoint": access.url,
        f"{bucket}.endpoint.region": "us-east-1",
        f"{bucket}.path.style.access": "true",
        f"{bucket}.connection.ssl.enabled": str(urlsplit(access.url).scheme == "https").lower(),
        f"{bucket}.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        f"{bucket}.access.key": access.access_key_id,
        f"{bucket}.secret.key": access.secret_access_key,
    }


def base(repository: Repository, ref: str, prefix: str) -> str:
    """The URI of a workspace's root, with a trailing `/`. `prefix` is empty or ends in `/`."""
    return f"s3a://{repository}/{ref}/{prefix}"
