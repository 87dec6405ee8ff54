#include "stages/artifact/loader.h"

#include <atomic>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/cpu_pool.h"
#include "stages/random/random.h"
#include "tests/support/chance.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

/// Samples of twelve values, computed from (epoch, index). Some are skipped, some are unreadable.
class FakeDataset : public Dataset {
 public:
  DatasetDescription describe() const override {
    return {.size = size,
            .tensors = {{"image", {3, 2, 2}, at::kFloat}, {"label", {}, at::kLong}},
            .classes = {}};
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    ++reads;
    if (skipped.contains(index)) return std::nullopt;
    if (broken.contains(index))
      throw runner::StageError(runner::ErrorCode::kCorruptImage, sample_name(index));
    Random random({static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index)});
    const at::Tensor image = torch::empty({3, 2, 2});
    for (int i = 0; i < 12; ++i) image.data_ptr<float>()[i] = static_cast<float>(random.uniform());
    return NamedTensors{{"image", image}, {"label", torch::scalar_tensor(index * 10, at::kLong)}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }
  LoaderOptions loader() const override { return options; }

  std::int64_t size = 23;
  std::set<std::int64_t> skipped, broken;
  LoaderOptions options;
  mutable std::atomic<int> reads = 0;
};

std::shared_ptr<FakeDataset> dataset(std::int64_t workers, std::int64_t prefetch = 2) {
  auto result = std::make_shared<FakeDataset>();
  result->options = {.workers = workers, .prefetch = prefetch};
  return result;
}

std::vector<Batch> all_batches(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(*std::move(batch));
  return batches;
}

TEST(Loader, WorkersAllocateInTheirOwnLane) {
  for (const std::int64_t workers : {0, 2}) {
    const CpuPool pool;
    Loader loader(dataset(workers), sequential_order(23), 4, 0);
    all_batches(loader);
    EXPECT_EQ(pool.reserved(Lane::kBeside) > 0, workers > 0);
    EXPECT_GT(pool.reserved(Lane::kStep), 0) << "batches are the step's";
  }
}

TEST(Loader, AnyNumberOfWorkersGivesTheSameBits) {
  std::vector<Batch> expected;
  for (const std::int64_t workers : {0, 1, 8}) {
    for (const std::int64_t prefetch : {1, 3, 50}) {
      const auto data = dataset(workers, prefetch);
      data->skipped = {4, 11};
      Loader loader(data, shuffled_order(23, 5, 2), 4, 2);
      const std::vector<Batch> batches = all_batches(loader);
      EXPECT_EQ(loader.skipped(), 2);
      if (expected.empty()) expected = batches;
      ASSERT_EQ(batches.size(), expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) {
        EXPECT_EQ(batches[i].indices, expected[i].indices);
        EXPECT_TRUE(batches[i]["image"].equal(expected[i]["image"]));
        EXPECT_TRUE(batches[i]["label"].equal(expected[i]["label"]));
      }
    }
  }
}

TEST(Loader, BatchesFollowTheSampleOrder) {
  Loader loader(dataset(3), std::vector<std::int64_t>{7, 3, 9, 1, 0}, 2, 0);
  EXPECT_EQ(loader.batches(), 3);
  const auto batches = all_batches(loader);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[1].indices, (std::vector<std::int64_t>{9, 1}));
  EXPECT_TRUE(batches[1]["label"].equal(torch::tensor({90, 10})));
  EXPECT_EQ(batches[2].units(), 1);
}

TEST(Loader, DropLastOmitsTheIncompleteBatch) {
  Loader loader(dataset(0), sequential_order(10), 4, 0, true);
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_EQ(all_batches(loader).size(), 2u);
  Loader none(dataset(2), sequential_order(3), 4, 0, true);
  EXPECT_EQ(none.next().has_value(), false);
}

TEST(Loader, SkippedSamplesShrinkOrRemoveABatch) {
  const auto data = dataset(2);
  data->skipped = {0, 2, 4, 5, 6, 7};
  Loader loader(data, sequential_order(10), 4, 0);
  const auto batches = all_batches(loader);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].indices, (std::vector<std::int64_t>{1, 3}));
  EXPECT_TRUE(batches[0]["label"].equal(torch::tensor({10, 30})));
  EXPECT_EQ(batches[1].indices, (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(loader.skipped(), 6);
}

void expect_same(const Batch& batch, const Batch& expected) {
  EXPECT_EQ(batch.indices, expected.indices);
  EXPECT_TRUE(batch["image"].equal(expected["image"]));
  EXPECT_TRUE(batch["label"].equal(expected["label"]));
}

TEST(Loader, ContinuesFromAnyPosition) {
  const auto order = shuffled_order(23, 5, 2);
  const auto data = [&](std::int64_t workers) {
    const auto result = dataset(workers);
    // Skipped: one sample of the first batch, and all samples of the third and the last batch.
    result->skipped = {order[1],  order[8],  order[9],  order[10],
                       order[11], order[20], order[21], order[22]};
    return result;
  };
  for (const std::int64_t workers : {0, 1, 2, 5}) {
    Loader whole(data(workers), order, 4, 2);
    std::vector<std::int64_t> positions = {whole.position()};
    std::vector<std::int64_t> skipped = {whole.skipped()};
    std::vector<Batch> batches;
    while (auto batch = whole.next()) {
      batches.push_back(*std::move(batch));
      positions.push_back(whole.position());
      skipped.push_back(whole.skipped());
    }
    EXPECT_EQ(positions, (std::vector<std::int64_t>{0, 1, 2, 4, 5}));
    EXPECT_EQ(whole.position(), 6);
    EXPECT_EQ(whole.skipped(), 8);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto rest = data(workers);
      Loader loader(rest, order, 4, 2, false, positions[i]);
      EXPECT_EQ(loader.position(), positions[i]);
      EXPECT_EQ(loader.batches(), 6);
      for (std::size_t j = i; j < batches.size(); ++j)
        expect_same(loader.next().value(), batches[j]);
      EXPECT_FALSE(loader.next().has_value());
      EXPECT_EQ(loader.position(), 6);
      EXPECT_EQ(loader.skipped(), whole.skipped() - skipped[i]);
      EXPECT_EQ(rest->reads, 23 - 4 * positions[i]) << "reads nothing before its first batch";
    }
  }
}

TEST(Loader, ContinuesAtTheEndButNotPastIt) {
  for (const std::int64_t workers : {0, 2}) {
    const auto data = dataset(workers);
    Loader loader(data, sequential_order(10), 4, 0, true, 2);
    EXPECT_FALSE(loader.next().has_value());
    EXPECT_EQ(loader.position(), 2);
    EXPECT_EQ(data->reads, 0);
    EXPECT_THROW(Loader(data, sequential_order(10), 4, 0, true, 3), std::invalid_argument);
    EXPECT_THROW(Loader(data, sequential_order(10), 4, 0, false, -1), std::invalid_argument);
  }
}

TEST(Loader, StartsAnywhereInAPassTooLongForMemory) {
  const auto data = dataset(2);
  data->size = std::int64_t{1} << 50;
  const SampleOrder order = shuffled_order(data->size, 5, 0);
  Loader loader(data, order, 4, 0, false, 123'456'789'012);
  EXPECT_EQ(loader.batches(), std::int64_t{1} << 48);
  const std::int64_t first = 4 * 123'456'789'012;
  EXPECT_EQ(loader.next()->indices,
            (std::vector<std::int64_t>{order[first], order[first + 1], order[first + 2],
                                       order[first + 3]}));
}

TEST(Loader, UnreadableBatchDoesNotAdvanceThePosition) {
  for (const std::int64_t workers : {0, 2}) {
    const auto data = dataset(workers);
    data->broken = {5};
    Loader loader(data, sequential_order(12), 4, 0);
    loader.next();
    EXPECT_THROW(loader.next(), runner::StageError);
    EXPECT_EQ(loader.position(), 1);
  }
}

TEST(Loader, FirstErrorOfABatchIsThrownAtThatBatch) {
  for (const std::int64_t workers : {0, 1, 8}) {
    const auto data = dataset(workers, 5);
    data->broken = {6, 5, 7};
    Loader loader(data, sequential_order(12), 4, 0);
    EXPECT_EQ(loader.next()->indices.front(), 0);
    EXPECT_REFUSED(loader.next(), kCorruptImage, "", "sample 5");
  }
}

TEST(Loader, ReadsAheadExactlyAsFarAsConfigured) {
  const auto data = dataset(2, 3);
  data->size = 100;
  {
    Loader loader(data, sequential_order(100), 10, 0);
    EXPECT_EQ(loader.next()->units(), 10);
  }
  EXPECT_LE(data->reads, 40);
}

TEST(Loader, EndsEarlyWithoutHanging) {
  for (int round = 0; round < 50; ++round) {
    Loader unused(dataset(4), sequential_order(23), 2, 0);
    Loader begun(dataset(4), sequential_order(23), 2, 0);
    begun.next();
  }
}

TEST(Loader, SampleWithADifferentShapeIsALogicError) {
  class Wrong : public FakeDataset {
   public:
    std::optional<NamedTensors> sample(std::int64_t, std::int64_t) const override {
      return NamedTensors{{"image", torch::zeros({3, 2, 1})},
                          {"label", torch::scalar_tensor(1, at::kLong)}};
    }
  };
  Loader loader(std::make_shared<Wrong>(), sequential_order(4), 2, 0);
  EXPECT_THROW(loader.next(), std::logic_error);
}

TEST(Random, DependsOnlyOnItsKey) {
  Random a({1, 2}), b({1, 2}), c({2, 1}), d({1, 2, 0});
  const auto first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
  EXPECT_NE(first, d.next());
  EXPECT_NE(first, a.next());
}

TEST(Random, IsUniform) {
  Random random({4});
  double sum = 0, squares = 0;
  std::vector<int> buckets(7);
  for (int i = 0; i < 70'000; ++i) {
    const double value = random.uniform();
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += value;
    squares += value * value;
    ++buckets[static_cast<std::size_t>(random.below(7))];
  }
  EXPECT_NEAR(sum / 70'000, 0.5, mean_error(std::sqrt(1 / 12.0), 70'000));
  EXPECT_NEAR(squares / 70'000, 1.0 / 3, mean_error(std::sqrt(1 / 5.0 - 1 / 9.0), 70'000));
  for (const int count : buckets) EXPECT_NEAR(count, 10'000, count_error(70'000, 1 / 7.0));
}

TEST(PassProgress, NoTimeIsLeftAtTheEnd) {
  const PassProgress progress("evaluate", 4);
  const runner::Progress half = progress.after(2, 20), whole = progress.after(4, 40);
  EXPECT_EQ(half.phase, "evaluate");
  EXPECT_EQ(half.step, 2);
  EXPECT_EQ(half.steps, 4);
  EXPECT_GT(half.seconds_left, 0);
  EXPECT_EQ(whole.seconds_left, 0);
}

}  // namespace
}  // namespace stages
