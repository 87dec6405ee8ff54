// End-to-end tests of weights averaged during training: evaluate, predict and export use the
// weights that --weights requests.

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RequestedWeights : public testing::Test {
 protected:
  void SetUp() override {
    if (!folder_.is_made()) {
      const Ended made = retort(
          "data make image_folder --out photos --classes 3 --per-class 10 --size 32 --seed 5 -q",
          folder_.path());
      ASSERT_EQ(made.exit, 0) << made.err;
      folder_.keep();
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() == ".jpg") image_ = entry.path().string();
    }
  }
  void train(const std::string& name, const std::string& more) {
    const Ended ran = retort(
        "run classify data.root=photos data.image_size=24 epochs=2 batch_size=8 run.dir=" + name +
            " -q " + more,
        folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
  }
  void train_with_average() { train("run", "'train.ema={decay: 0.5}'"); }
  double log_loss(const std::string& run) const {
    const auto summary = nlohmann::json::parse(file_text(folder_ / (run + "/summary.json")));
    return summary["metrics"]["evaluate"]["evaluate/log_loss"]["value"];
  }
  SharedFolder folder_;
  std::string image_;
};

TEST_F(RequestedWeights, EvaluateUsesRequestedWeights) {
  train_with_average();
  for (const char* which : {"averaged", "trained"}) {
    const Ended ended = retort(std::string("evaluate run --weights ") + which + " run.dir=" + which,
                               folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(std::string("train: the ") + which + " weights after step "));
  }
  EXPECT_NE(log_loss("averaged"), log_loss("trained"));
  EXPECT_EQ(log_loss("averaged"), log_loss("run"));
}

TEST_F(RequestedWeights, PredictUsesRequestedWeights) {
  train_with_average();
  const auto predicted = [&](const std::string& flag) {
    const Ended ended = retort("predict run " + image_ + flag, folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return ended;
  };
  const Ended averaged = predicted(" --weights averaged"),
              trained = predicted(" --weights trained");
  EXPECT_THAT(averaged.err, testing::StartsWith("predict: the averaged weights after step "));
  EXPECT_THAT(trained.err, testing::StartsWith("predict: the trained weights after step "));
  EXPECT_NE(averaged.out, trained.out);
  EXPECT_EQ(averaged.out, predicted("").out);
}

TEST_F(RequestedWeights, ExportWritesRequestedWeights) {
  train_with_average();
  const auto exported = [&](const std::string& out, const std::string& flag) {
    const Ended ended = retort("export run -q --out " + out + flag, folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return file_text(folder_ / (out + "/model.safetensors"));
  };
  const std::string averaged = exported("a", " --weights averaged"),
                    trained = exported("t", " --weights trained");
  EXPECT_EQ(averaged.size(), trained.size());
  EXPECT_GT(averaged.size(), 10'000u);
  EXPECT_FALSE(averaged == trained);
  EXPECT_TRUE(averaged == exported("d", ""));
  EXPECT_THAT(file_text(folder_ / "a/README.md"),
              HasSubstr("These are the weights averaged over the training steps"));
  EXPECT_THAT(file_text(folder_ / "t/README.md"),
              HasSubstr("These are the weights as trained, not their average."));
}

TEST_F(RequestedWeights, TrainedWeightsAreTheDefaultIfTheResultIsTrained) {
  train("run", "'train.ema={decay: 0.5, result: trained}'");
  ASSERT_EQ(retort("evaluate run --weights averaged run.dir=averaged", folder_.path()).exit, 0);
  ASSERT_EQ(retort("evaluate run --weights trained run.dir=trained", folder_.path()).exit, 0);
  EXPECT_NE(log_loss("averaged"), log_loss("trained"));
  EXPECT_EQ(log_loss("trained"), log_loss("run"));
}

TEST_F(RequestedWeights, AveragedWeightsAreRejectedWithoutAnAverage) {
  train("run", "");
  const std::string recipe = file_text(folder_ / "run/.retort/recipe.yaml");
  const std::size_t at = recipe.find("\n  ema: null\n");
  ASSERT_NE(at, std::string::npos);
  const auto line = std::to_string(
      2 + std::count(recipe.begin(), recipe.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  for (const std::string& verb : {"predict run " + image_, std::string("export run --out out"),
                                  std::string("evaluate run run.dir=out")}) {
    const Ended ended = retort(verb + " --weights averaged", folder_.path());
    EXPECT_EQ(ended.exit, 78) << verb;
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err,
                testing::MatchesRegex(
                    "(data: [^\n]*\n)?run/.retort/recipe.yaml:" + line +
                    ":8: error.E0314.: the run kept no average of its weights ./train/ema.\n"
                    " *" +
                    line +
                    " .   ema: null\n"
                    " *.        .\n"
                    "  help: leave out --weights averaged\n"))
        << verb;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << verb;
  }
  EXPECT_EQ(retort("predict run " + image_ + " --weights trained", folder_.path()).exit, 0);
}

}  // namespace
