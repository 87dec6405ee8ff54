#include "stages/artifact/episode_set.h"

#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/machine/counting_allocator.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// 60 samples of 6 classes: sample i is of class i modulo 6, and its first coordinate is i.
class NumberedSamples final : public Dataset {
 public:
  DatasetDescription describe() const override {
    return {
        60, {{"image", {2}, at::kFloat}, {"label", {}, at::kLong}}, {"a", "b", "c", "d", "e", "f"}};
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    if (unreadable.contains(index)) return {};
    return NamedTensors{
        {"image", torch::tensor({static_cast<float>(index), static_cast<float>(epoch)})},
        {"label", torch::tensor(index % 6)}};
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  LoaderOptions loader() const override { return options; }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < 60; ++i) all.push_back(i % 6);
    return all;
  }

  std::set<std::int64_t> unreadable;
  LoaderOptions options;
};

constexpr EpisodeShape kSmall{.ways = 3, .shots = 2, .queries = 4};

EpisodeSet episodes(std::uint64_t seed = 7, bool draws_anew = true) {
  return {std::make_shared<NumberedSamples>(),
          {.shape = kSmall, .episodes = 20, .seed = seed, .draws_anew = draws_anew},
          "the data"};
}

std::vector<float> numbers(const NamedTensors& episode) {
  const at::Tensor first = episode.at("image").select(1, 0).contiguous();
  return {first.const_data_ptr<float>(), first.const_data_ptr<float>() + first.numel()};
}

runner::Diagnostics refusal_of_shape(std::shared_ptr<const Dataset> data,
                                     const EpisodeShape& shape) {
  return refusals_of([&] { EpisodeSet(std::move(data), {.shape = shape}, "the training data"); });
}

TEST(EpisodeSet, ReadingAnEpisodeNeedsMemoryForOneMoreImage) {
  const EpisodeSet set = episodes();
  const CountingAllocator counter;
  const NamedTensors episode = *set.sample(3, 0);
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : episode) bytes += tensor.nbytes();
  constexpr std::int64_t kImage = 8 + 8;  // and its label
  EXPECT_GT(counter.peak_bytes(), static_cast<std::int64_t>(bytes));
  EXPECT_LE(counter.peak_bytes(), static_cast<std::int64_t>(bytes) + kImage);
}

TEST(EpisodeSet, SupportImagesAreOrderedByClassAndPrecedeQueries) {
  const EpisodeSet set = episodes();
  for (std::int64_t index = 0; index < 20; ++index) {
    const NamedTensors episode = *set.sample(3, index);
    const std::vector<float> drawn = numbers(episode);
    ASSERT_EQ(drawn.size(), 18u);
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 18u) << "drawn twice";
    const std::vector<std::int64_t> classes = set.classes(3, index);
    EXPECT_EQ(std::set(classes.begin(), classes.end()).size(), 3u) << "a class is listed twice";
    for (std::int64_t way = 0; way < 3; ++way) {
      const std::int64_t label = classes[static_cast<std::size_t>(way)];
      for (std::int64_t shot = 0; shot < 2; ++shot) {
        EXPECT_EQ(static_cast<std::int64_t>(drawn[static_cast<std::size_t>(way * 2 + shot)]) % 6,
                  label);
        EXPECT_EQ(episode.at("support")[way][shot].item<std::int64_t>(), label);
      }
      for (std::int64_t query = 0; query < 4; ++query) {
        EXPECT_EQ(
            static_cast<std::int64_t>(drawn[static_cast<std::size_t>(6 + way * 4 + query)]) % 6,
            label);
        EXPECT_EQ(episode.at("label")[way * 4 + query].item<std::int64_t>(), way);
      }
    }
  }
}

TEST(EpisodeSet, EpisodeDependsOnlyOnSeedEpochAndIndex) {
  const EpisodeSet one = episodes(), same = episodes(), other = episodes(8),
                   still = episodes(7, /*draws_anew=*/false);
  EXPECT_EQ(numbers(*one.sample(1, 5)), numbers(*same.sample(1, 5)));
  EXPECT_NE(numbers(*one.sample(1, 5)), numbers(*one.sample(1, 6)));
  EXPECT_NE(numbers(*one.sample(1, 5)), numbers(*one.sample(2, 5)));
  EXPECT_NE(numbers(*one.sample(1, 5)), numbers(*other.sample(1, 5)));
  EXPECT_EQ(numbers(*still.sample(1, 5)), numbers(*still.sample(2, 5)));
  EXPECT_EQ(still.classes(1, 5), still.classes(2, 5));
}

TEST(EpisodeSet, EveryClassAndEverySampleIsEventuallyDrawn) {
  const EpisodeSet set = episodes();
  std::set<float> seen, first;
  for (std::int64_t index = 0; index < 200; ++index) {
    const std::vector<float> drawn = numbers(*set.sample(0, index));
    seen.insert(drawn.begin(), drawn.end());
    first.insert(drawn.front());
  }
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_GT(first.size(), 50u);
}

TEST(EpisodeSet, RepeatedSampleInAnEpochIsAugmentedDifferently) {
  const EpisodeSet set = episodes();
  const auto epoch_of = [&](std::int64_t epoch, std::int64_t index) {
    return set.sample(epoch, index)->at("image")[0][1].item<float>();
  };
  EXPECT_NE(epoch_of(0, 0), epoch_of(0, 1));
  EXPECT_NE(epoch_of(0, 19), epoch_of(1, 0));
}

TEST(EpisodeSet, DescribesAnEpisodeAsASample) {
  const DatasetDescription data = episodes().describe();
  EXPECT_EQ(data.size, 20);
  EXPECT_EQ(data.tensors.at(0).shape, (std::vector<std::int64_t>{18, 2}));
  EXPECT_EQ(episode_shape(data), kSmall);
  EXPECT_TRUE(data.augmented);
  EXPECT_EQ(episode_shape(NumberedSamples().describe()), std::nullopt);
}

TEST(EpisodeSet, UnreadableSamplesAreReplaced) {
  auto data = std::make_shared<NumberedSamples>();
  for (std::int64_t i = 0; i < 24; ++i) data->unreadable.insert(i);  // 4 of 10 of each class
  const EpisodeSet set(data, {.shape = kSmall, .episodes = 20, .seed = 7}, "the data");
  for (std::int64_t index = 0; index < 20; ++index) {
    for (const float number : numbers(*set.sample(0, index))) EXPECT_GE(number, 24);
  }
  for (std::int64_t i = 24; i < 60; i += 6) data->unreadable.insert(i);  // all of class a
  try {
    for (std::int64_t index = 0; index < 20; ++index) set.sample(0, index);
    FAIL() << "an episode without samples";
  } catch (const runner::StageError& error) {
    EXPECT_STREQ(error.what(), "'a' has only 0 readable images, but an episode needs 6");
  }
}

TEST(EpisodeSet, LoadersReadTheSameBitsWithAnyNumberOfThreads) {
  auto data = std::make_shared<NumberedSamples>();
  const auto read = [&](std::int64_t workers) {
    data->options = {.workers = workers, .prefetch = 2};
    const auto set = std::make_shared<EpisodeSet>(
        data, EpisodeSet::Options{.shape = kSmall, .episodes = 20, .seed = 7}, "the data");
    Loader loader(set, set->epoch_order(1, 0), 3, 0);
    std::vector<at::Tensor> all;
    while (const auto batch = loader.next()) all.push_back((*batch)["image"]);
    return torch::cat(all);
  };
  EXPECT_EQ(read(0).sizes(), (std::vector<std::int64_t>{20, 18, 2}));
  EXPECT_TRUE(read(0).equal(read(4)));
}

TEST(EpisodeSet, InsufficientDataIsRejected) {
  const auto data = std::make_shared<NumberedSamples>();
  EXPECT_REFUSED(refusal_of_shape(data, {.ways = 7, .shots = 1, .queries = 1}), kTooFewSamples,
                 "/ways", "6 classes", "needs 7", "at most 6");
  EXPECT_REFUSED(refusal_of_shape(data, {.ways = 2, .shots = 5, .queries = 6}), kTooFewSamples,
                 "/queries", "11 images", "'a' has 10, 'b' has 10");
  EXPECT_THAT(refusal_of_shape(data, {.ways = 6, .shots = 5, .queries = 5}), testing::IsEmpty());
  auto silent = std::make_shared<TinyDataset>(60);
  silent->tells_labels = false;
  EXPECT_REFUSED(refusal_of_shape(silent, kSmall), kTooFewSamples, "",
                 "are not known before its samples are read");
}

TEST(EpisodeSet, AtMostTenSmallClassesAreListed) {
  EXPECT_REFUSED(refusal_of_shape(std::make_shared<TinyDataset>(36, 12),
                                  {.ways = 2, .shots = 2, .queries = 2}),
                 kTooFewSamples, "/queries", "'class9' has 3 and 2 more");
}

TEST(EpisodeSet, OmitsCaptions) {
  const auto data = std::make_shared<TinyDataset>(60);
  data->has_captions = true;
  const EpisodeSet set(data, {.shape = kSmall}, "the data");
  EXPECT_TRUE(set.describe().captions.empty());
  EXPECT_TRUE(set.captions().empty());
  EXPECT_FALSE(set.sample(0, 0)->contains("caption"));
  for (const TensorSpec& spec : set.describe().tensors) EXPECT_NE(spec.name, "caption");
}

}  // namespace
}  // namespace stages
