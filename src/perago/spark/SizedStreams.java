package perago.s3a;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.s3a.impl.streams.AbstractObjectInputStreamFactory;
import org.apache.hadoop.fs.s3a.impl.streams.ClassicObjectInputStreamFactory;
import org.apache.hadoop.fs.s3a.impl.streams.FactoryBindingParameters;
import org.apache.hadoop.fs.s3a.impl.streams.InputStreamType;
import org.apache.hadoop.fs.s3a.impl.streams.ObjectInputStream;
import org.apache.hadoop.fs.s3a.impl.streams.ObjectReadParameters;
import org.apache.hadoop.fs.s3a.impl.streams.StreamFactoryRequirements;
import org.apache.hadoop.fs.s3a.prefetch.PrefetchingInputStreamFactory;

/**
 * Chooses how S3A reads an object by its size. An object that fits into one block of S3A's prefetching stream is read whole, with
 * one request. Larger ones are read by ranges, so that columns which a query does not need are not transferred.
 *
 * Compiled by Janino, which has no lambdas and no diamond operator.
 */
public class SizedStreams extends AbstractObjectInputStreamFactory {
  private final ClassicObjectInputStreamFactory ranges = new ClassicObjectInputStreamFactory();
  private final PrefetchingInputStreamFactory whole = new PrefetchingInputStreamFactory();
  private long largestWhole;

  public SizedStreams() {
    super("SizedStreams");
  }

  protected void serviceInit(Configuration configuration) throws Exception {
    super.serviceInit(configuration);
    largestWhole = configuration.getLongBytes("fs.s3a.prefetch.block.size", 8388608L);
    ranges.init(configuration);
    whole.init(configuration);
  }

  public void bind(FactoryBindingParameters parameters) throws IOException {
    super.bind(parameters);
    ranges.bind(parameters);
    whole.bind(parameters);
  }

  public ObjectInputStream readObject(ObjectReadParameters parameters) throws IOException {
    if (parameters.getObjectAttributes().getLen() <= largestWhole) {
      return whole.readObject(parameters);
    }
    return ranges.readObject(parameters);
  }

  public InputStreamType streamType() {
    return InputStreamType.Custom;
  }

  /** The threads of the one and the ranges of the other: prefetching alone would merge no ranges. */
  public StreamFactoryRequirements factoryRequirements() {
    StreamFactoryRequirements threads = whole.factoryRequirements();
    return new StreamFactoryRequirements(
        threads.sharedThreads(),
        threads.streamThreads(),
        ranges.factoryRequirements().vectoredIOContext(),
        new StreamFactoryRequirements.Requirements[] {StreamFactoryRequirements.Requirements.RequiresFuturePool});
  }
}
