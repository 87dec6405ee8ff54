#include "stages/plan/recovery.h"

#include <new>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/recording_context.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// Runs out of memory for a sample `failures` times.
class GreedyDataset final : public Dataset {
 public:
  DatasetDescription describe() const override { return inner_.describe(); }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    if (index == greedy && failures > 0) {
      --failures;
      throw std::bad_alloc();
    }
    return inner_.sample(epoch, index);
  }
  std::string sample_name(std::int64_t index) const override { return inner_.sample_name(index); }
  LoaderOptions loader() const override { return {.workers = 0}; }

  std::int64_t greedy = 5;
  mutable int failures = 1;
  TinyDataset inner_{10};
};

class RetriedLoaderTest : public testing::Test {
 protected:
  RetriedLoaderTest() { policy_.recovery.max_retries = 1; }
  /// Returns the indices of all batches, in order.
  std::vector<std::int64_t> read() {
    RetriedLoader loader({data_, SampleOrder::sequential(10), 2}, policy_, context_);
    EXPECT_EQ(loader.batches(), 5);
    std::vector<std::int64_t> indices;
    while (const auto batch = loader.next()) {
      indices.insert(indices.end(), batch->indices.begin(), batch->indices.end());
      EXPECT_EQ(loader.position(), (indices.back() + 2) / 2);
    }
    skipped_ = loader.skipped();
    return indices;
  }
  std::shared_ptr<GreedyDataset> data_ = std::make_shared<GreedyDataset>();
  MemoryPolicy policy_;
  RecordingContext context_;
  std::int64_t skipped_ = 0;
};

TEST_F(RetriedLoaderTest, ContinuesWithTheBatchThatRanOutOfMemory) {
  EXPECT_THAT(read(), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(context_.said, testing::ElementsAre("reading a batch: out of memory: repeated"));
}

TEST_F(RetriedLoaderTest, CountsSkippedSamplesOfBothLoaders) {
  data_->inner_.skipped = {1, 8};
  EXPECT_THAT(read(), testing::ElementsAre(0, 2, 3, 4, 5, 6, 7, 9));
  EXPECT_EQ(skipped_, 2);
}

TEST_F(RetriedLoaderTest, SecondFailureOfABatchIsThrown) {
  data_->failures = 2;
  EXPECT_THROW(read(), std::bad_alloc);
}

TEST_F(RetriedLoaderTest, FirstFailureIsThrownWithoutRetries) {
  policy_.recovery.max_retries = 0;
  EXPECT_THROW(read(), std::bad_alloc);
}

}  // namespace
}  // namespace stages
