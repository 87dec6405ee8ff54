#include "stages/few_shot/episode_examples.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/artifact/episode_set.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr std::int64_t kDrawnWays = 3, kDrawnShots = 2, kDrawnQueries = 3,
                       kDrawnInAll = kDrawnWays * kDrawnQueries;

class EpisodeExamplesTest : public testing::Test {
 protected:
  EpisodeExamplesTest() {
    // In both episodes, all queries are correct, except for two of the second episode: its first
    // query, of way 0, is taken for way 2, and its last one, of way 2, for way 1.
    const at::Tensor ways = torch::arange(kDrawnWays).repeat_interleave(kDrawnQueries);
    labels_ = ways.repeat({2});
    logits_ = 3 * torch::one_hot(labels_, kDrawnWays).to(at::kFloat);
    logits_[kDrawnInAll] = torch::tensor({0.0, 0.0, 4.0});
    logits_[2 * kDrawnInAll - 1] = torch::tensor({0.0, 2.0, 0.0});
  }
  EpisodeSet episodes(const std::shared_ptr<const Dataset>& source) const {
    return EpisodeSet(
        source,
        {.shape = {.ways = kDrawnWays, .shots = kDrawnShots, .queries = kDrawnQueries},
         .episodes = 2,
         .seed = 4},
        "the test data");
  }
  nlohmann::json examples(const EpisodeSet& set, std::int64_t count) const {
    write_episode_examples(logits_, labels_, {1.0, 7.0 / 9}, set, count, folder_.path());
    return written_examples(folder_.path());
  }

  const std::shared_ptr<TinyDataset> points_ = std::make_shared<TinyDataset>(40, 4);
  const std::shared_ptr<const Dataset> shown_ = std::make_shared<ShownSamples>(points_);
  const TemporaryFolder folder_;
  at::Tensor logits_, labels_;
};

TEST_F(EpisodeExamplesTest, QueriesComeFromTheEpisodeWithTheLowestAccuracy) {
  const EpisodeSet set = episodes(shown_);
  const std::vector<std::int64_t> from = set.source_samples(0, 1), ways = set.classes(0, 1);
  const auto all = examples(set, 8);
  const auto name = [&](std::size_t place) { return points_->sample_name(from[place]); };
  constexpr std::size_t kFirstQuery = kDrawnWays * kDrawnShots;
  EXPECT_THAT(names_of_group(all, "wrong queries of episode 1, which has the lowest accuracy"),
              ElementsAre(name(kFirstQuery), name(kFirstQuery + kDrawnInAll - 1)))
      << "the most confident first";
  EXPECT_THAT(names_of_group(all, "correct queries of episode 1"), SizeIs(7));
  const auto class_of = [&](std::size_t way) {
    return points_->describe().classes[static_cast<std::size_t>(ways[way])];
  };
  EXPECT_EQ(all[0]["label"], class_of(0));
  EXPECT_EQ(all[0]["predicted"], class_of(2));
}

TEST_F(EpisodeExamplesTest, SupportImagesOfConfusedClassesComeFirst) {
  const EpisodeSet set = episodes(shown_);
  const std::vector<std::int64_t> from = set.source_samples(0, 1);
  const auto name = [&](std::size_t place) { return points_->sample_name(from[place]); };
  EXPECT_THAT(names_of_group(examples(set, 2), "support images of episode 1"),
              ElementsAre(name(0), name(2 * kDrawnShots)))
      << "one query of way 0 and one of way 2";
  EXPECT_THAT(names_of_group(examples(set, 30), "support images of episode 1"),
              ElementsAre(name(0), name(1), name(4), name(5), name(2), name(3)));
}

TEST_F(EpisodeExamplesTest, SamplesComeFromTheEpisode) {
  points_->skipped = {0, 1, 2, 3};  // replaced by other samples of their classes
  const EpisodeSet set = episodes(shown_);
  for (std::int64_t index = 0; index < 2; ++index) {
    const std::vector<std::int64_t> from = set.source_samples(0, index);
    const at::Tensor images = set.sample(0, index)->at("image");
    ASSERT_EQ(images.size(0), std::ssize(from));
    for (std::size_t place = 0; place < from.size(); ++place)
      EXPECT_TRUE(torch::equal(images[static_cast<std::int64_t>(place)],
                               points_->sample(0, from[place])->at("image")));
  }
}

TEST_F(EpisodeExamplesTest, NothingIsWrittenWithoutImages) {
  EXPECT_TRUE(examples(episodes(points_), 8).is_null());
  EXPECT_TRUE(examples(episodes(shown_), 0).is_null());
}

}  // namespace
}  // namespace stages
