#include "runner/shared/text/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace runner {
namespace {

std::string nearest_of(std::string_view word, std::vector<std::string> candidates) {
  return nearest_name(word, candidates);
}

TEST(Suggest, SwappedLettersAreOneEdit) {
  const std::vector<std::string> names = {"on"};
  EXPECT_EQ(nearest_name("no", names), "on");
}

TEST(Suggest, SwapDeletionInsertionAndSubstitutionAreNear) {
  EXPECT_EQ(nearest_of("trian", {"data", "train"}), "train");
  EXPECT_EQ(nearest_of("epoch", {"train", "epochs"}), "epochs");
  EXPECT_EQ(nearest_of("modell", {"model"}), "model");
  EXPECT_EQ(nearest_of("seat", {"seed"}), "seed");
}

TEST(Suggest, LongWordsMayDifferMore) {
  EXPECT_EQ(nearest_of("learning_rt", {"batch_size", "learning_rate"}), "learning_rate");
}

TEST(Suggest, WordsMayBeAbbreviatedToInitials) {
  EXPECT_EQ(nearest_of("lr", {"betas", "learning_rate", "kind"}), "learning_rate");
  EXPECT_EQ(nearest_of("wd", {"weight_decay"}), "weight_decay");
  EXPECT_EQ(nearest_of("lrf", {"learning_rate", "learning_rate_factors"}), "learning_rate_factors");
  EXPECT_FALSE(is_short_for("k", "kind"));
  EXPECT_FALSE(is_short_for("lr", "learning"));
}

TEST(Suggest, UnrelatedShortWordsAreNotSuggested) {
  EXPECT_EQ(nearest_of("lr", {"ab", "xy"}), "");
  EXPECT_EQ(nearest_of("a", {"b"}), "");
  EXPECT_EQ(nearest_of("zzz", {"train", "data"}), "");
}

TEST(Suggest, NearestWinsAndTiesGoToTheFirst) {
  EXPECT_EQ(nearest_of("bath_size", {"path_sizes", "batch_size"}), "batch_size");
  EXPECT_EQ(nearest_of("data", {"datb", "datc"}), "datb");
}

TEST(Suggest, DifferentCaseIsNearerThanADifferentLetter) {
  EXPECT_EQ(nearest_of("lambda_v", {"lambda_I", "lambda_V"}), "lambda_V");
  EXPECT_EQ(nearest_of("LR", {"lr"}), "lr");
}

TEST(Suggest, DistantWordsGiveNoSuggestion) {
  EXPECT_EQ(nearest_of("", {"a"}), "");
  EXPECT_EQ(nearest_of("word", {}), "");
  EXPECT_EQ(did_you_mean("word", {}), "");
  EXPECT_EQ(did_you_mean("wrd", std::vector<std::string>{"word"}), "did you mean 'word'?");
}

TEST(Suggest, LastPartOfAPathMatchesAllPathsThatEndWithIt) {
  const std::vector<std::string> paths = {"train.epochs", "train.loss.alpha", "model.alpha",
                                          "train/optimizer/adam"};
  EXPECT_EQ(did_you_mean_path("alpha", paths), "did you mean 'train.loss.alpha' or 'model.alpha'?");
  EXPECT_EQ(did_you_mean_path("loss.alpha", paths), "did you mean 'train.loss.alpha'?");
  EXPECT_EQ(did_you_mean_path("epoch", paths), "did you mean 'train.epochs'?");
  EXPECT_EQ(did_you_mean_path("adma", paths), "did you mean 'train/optimizer/adam'?");
  EXPECT_EQ(did_you_mean_path("trian.epochs", paths), "did you mean 'train.epochs'?");
  EXPECT_EQ(did_you_mean_path("zzzz", paths), "");
  EXPECT_EQ(did_you_mean_path("", paths), "");
}

}  // namespace
}  // namespace runner
