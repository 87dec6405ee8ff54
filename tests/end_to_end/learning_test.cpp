// Whole training runs, which take minutes. They check what was learned, not how long it took.

#include <algorithm>
#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/chance.h"
#include "tests/support/program.h"
#include "tests/support/shared_data.h"

namespace {

nlohmann::json test_metrics(const std::filesystem::path& run) {
  return nlohmann::json::parse(file_text(run / "nodes/evaluate/metrics.json"));
}

TEST(Learning, QuickstartLearnsShapes) {
  const TemporaryFolder folder;
  const Ended ended = retort("run quickstart run.dir=run", folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, testing::HasSubstr("chance 12.5%"));
  EXPECT_THAT(ended.out, testing::HasSubstr("run"));
  EXPECT_GT(test_metrics(folder / "run")["top1"].get<double>(), 0.8);
}

/// The values of a metric in recording order.
std::vector<double> values_of(const std::filesystem::path& run, const std::string& metric) {
  std::vector<double> values;
  std::istringstream lines(file_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json one = nlohmann::json::parse(line);
    if (one.value("name", "") == metric) values.push_back(one["value"].get<double>());
  }
  return values;
}

/// Labels are smoothed here; batches of two often contain only the class of weight 0.
TEST(Learning, ClassWithZeroWeightDoesNotSpoilTraining) {
  const TemporaryFolder folder;
  ASSERT_EQ(retort("data make image_folder --out photos --classes 3 --per-class 10 --size 16 -q",
                   folder.path())
                .exit,
            0);
  for (const std::string loss : {"cross_entropy", "focal"}) {
    const Ended ended = retort(
        "run classify data.root=photos data.image_size=16 model.patch_size=8 model.hidden_size=16 "
        "model.intermediate_size=32 model.num_hidden_layers=1 '~data.augment.random_resized_crop' "
        "threads=1 train.epochs=6 train.batch_size=2 train.optimizer.learning_rate=0.001 "
        "train.label_smoothing=0.1 train.log_every=1 'train.class_weights={disc: 0}' "
        "train.loss.kind=" +
            loss + " run.dir=" + loss,
        folder.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
    const std::vector<double> of_steps = values_of(folder / loss, "train/loss");
    const std::vector<double> of_epochs = values_of(folder / loss, "train/epoch_loss");
    ASSERT_FALSE(of_steps.empty());
    ASSERT_EQ(of_epochs.size(), 6u);
    EXPECT_LT(*std::ranges::max_element(of_steps), 100) << loss;
    EXPECT_LT(of_epochs.back(), of_epochs.front()) << loss;
    EXPECT_EQ(ended.err.find(" is usual"), std::string::npos) << ended.err;
  }
}

TEST(DeepLearning, QuickstartLearnsInEveryPrecision) {
  const TemporaryFolder folder;
  const auto top1 = [&](const std::string& name, const std::string& precision) {
    const Ended ended = retort(
        "run quickstart run.dir=" + name + " 'memory.precision=" + precision + "'", folder.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return ended.exit == 0 ? test_metrics(folder / name)["top1"].get<double>() : -1;
  };
  const double full = top1("fp32", "fp32");
  EXPECT_GT(full, 0.8);
  // With this many images, two equally good networks differ by chance.
  const auto images = test_metrics(folder / "fp32")["samples"].get<double>();
  const double by_chance = std::sqrt(2) * count_error(images, full) / images;
  EXPECT_NEAR(top1("bf16", "bf16"), full, by_chance);
  EXPECT_NEAR(top1("fp16", "fp16"), full, by_chance);
  EXPECT_NEAR(
      top1("mixed", "{default:bf16,model.head:fp32,model.vision_model.encoder.layers.*.mlp:fp16}"),
      full, by_chance);
}

TEST(DeepLearning, ClassifyLearnsTwelveFlowersFromScratch) {
  const auto images = shared_data("data/flowers12/images");
  RETORT_NEEDS_SHARED(images);
  const TemporaryFolder folder;
  const Ended ended =
      retort("run classify data.root=" + images.string() + " run.dir=run", folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_GT(test_metrics(folder / "run")["top1_interval"]["low"].get<double>(), 0.65);
}

}  // namespace
