// Checks the properties of every option of train.supervised that changes what a step reads or
// produces: the same bits after a stop, and for any number of loader threads; the same gradient in
// micro-batches.
#include <algorithm>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// A training run on 30 samples, 18 of class 0, 9 of class 1 and 3 of class 2.
struct OptionRun {
  explicit OptionRun(std::string options) : options(std::move(options)) {
    for (std::int64_t i = 0; i < 30; ++i) train->relabeled[i] = i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2;
  }

  void run() {
    const auto stage = stage_of(
        kTrainSupervised,
        R"({"epochs": 4, "batch_size": 8, "log_every": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.1}, )" +
            options + "}");
    const runner::Inputs inputs({{"model", {model}},
                                 {"memory", {policy}},
                                 {"train", {train}},
                                 {"validation", {validation}}},
                                {{"model", "model"}});
    const runner::Outputs outputs = stage->run(inputs, context);
    const auto checkpoint = std::static_pointer_cast<const Checkpoint>(outputs.at("checkpoint"));
    for (const auto& [name, tensor] : weights(*checkpoint->network))
      left.push_back(tensor.detach().clone());
  }
  at::Tensor flat() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : left) all.push_back(tensor.flatten());
    return torch::cat(all);
  }

  const std::string options;
  std::shared_ptr<TinyDataset> train = std::make_shared<TinyDataset>(30),
                               validation = std::make_shared<TinyDataset>(12);
  std::shared_ptr<TinyModel> model = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  RecordingContext context;
  std::vector<at::Tensor> left;
};

class ClassificationOption : public testing::TestWithParam<const char*> {};

TEST_P(ClassificationOption, AffectsTraining) {
  OptionRun with(GetParam()), without(R"("label_smoothing": 0)");
  with.run();
  without.run();
  EXPECT_FALSE(with.flat().equal(without.flat()));
}

TEST_P(ClassificationOption, ResumingGivesTheSameBits) {
  OptionRun whole(GetParam());
  whole.run();
  for (const std::int64_t step : {1, 3, 6, 13}) {
    OptionRun stopped(GetParam()), resumed(GetParam());
    stopped.context.on_progress = [&](const runner::Progress& progress) {
      if (progress.phase == "train" && progress.step == step) stopped.context.is_canceled = true;
    };
    EXPECT_THROW(stopped.run(), runner::Canceled);
    std::filesystem::copy(stopped.context.node().folder, resumed.context.node().folder,
                          std::filesystem::copy_options::recursive);
    resumed.context.facts.resuming = true;
    torch::manual_seed(99);
    resumed.run();
    EXPECT_TRUE(resumed.flat().equal(whole.flat())) << "stopped at step " << step;
    EXPECT_EQ(resumed.context.values("validation/loss").back(),
              whole.context.values("validation/loss").back());
    EXPECT_EQ(resumed.context.values("train/epoch_accuracy").back(),
              whole.context.values("train/epoch_accuracy").back());
  }
}

TEST_P(ClassificationOption, MicroBatchesGiveTheSameResult) {
  OptionRun whole(GetParam()), parts(GetParam());
  whole.run();
  parts.policy->micro_batch = 3;
  parts.run();
  EXPECT_TRUE(parts.flat().allclose(whole.flat(), 1e-4, 1e-6));
  EXPECT_NEAR(parts.context.values("train/epoch_loss").back(),
              whole.context.values("train/epoch_loss").back(), 1e-5);
  EXPECT_NEAR(parts.context.values("train/epoch_accuracy").back(),
              whole.context.values("train/epoch_accuracy").back(), 1e-9);
}

TEST_P(ClassificationOption, LoaderThreadsChangeNothing) {
  OptionRun alone(GetParam()), threads(GetParam());
  alone.run();
  threads.train->options.workers = 3;
  threads.run();
  EXPECT_TRUE(threads.flat().equal(alone.flat()));
}

INSTANTIATE_TEST_SUITE_P(
    , ClassificationOption,
    testing::Values(R"("class_weights": "balanced")", R"("class_weights": [1, 0.5, 4])",
                    R"("class_weights": {"class2": 5}, "label_smoothing": 0.1)",
                    R"("sampling": "balanced")", R"("ema": {"decay": 0.9})",
                    R"("ema": {"decay": 0.8, "warmup": false}, "sampling": "balanced")",
                    R"("mixup": 0.4)", R"("mixup": 0.4, "label_smoothing": 0.1)"),
    [](const auto& info) { return "case_" + std::to_string(info.index); });

TEST(ClassWeights, BalancedWeightsMatchScikitLearn) {
  // n / (classes * count): 30 / (3 * 18), 30 / (3 * 9), 30 / (3 * 3).
  OptionRun balanced(R"("class_weights": "balanced")"),
      listed(R"("class_weights": [0.55555555555555555, 1.1111111111111111, 3.3333333333333333])");
  balanced.run();
  listed.run();
  EXPECT_TRUE(balanced.flat().equal(listed.flat()));
}

TEST(ClassWeights, EqualWeightsChangeNothing) {
  OptionRun weighted(R"("class_weights": [2, 2, 2])"), plain(R"("class_weights": "none")");
  weighted.run();
  plain.run();
  EXPECT_TRUE(weighted.flat().allclose(plain.flat(), 1e-5, 1e-7));
  EXPECT_NEAR(weighted.context.values("train/epoch_loss").back(),
              plain.context.values("train/epoch_loss").back(), 1e-6);
}

TEST(ClassWeights, BatchesWithZeroWeightTrainNothing) {
  for (const char* options : {"", R"(, "label_smoothing": 0.1)", R"(, "loss": {"kind": "focal"})",
                              R"(, "label_smoothing": 0.1, "loss": {"kind": "focal"})"}) {
    OptionRun run(R"("class_weights": {"class1": 0, "class2": 0})" + std::string(options));
    for (std::int64_t i = 0; i < 30; ++i) run.train->relabeled[i] = i == 0 ? 0 : 1;
    run.run();
    EXPECT_TRUE(run.flat().isfinite().all().item<bool>());
    for (const char* loss : {"train/loss", "train/epoch_loss", "validation/loss"})
      EXPECT_LT(std::ranges::max(run.context.values(loss)), 10) << options;
    EXPECT_EQ(std::ranges::count(run.context.values("train/loss"), 0), 12)
        << options;  // of 16: three of four batches
    EXPECT_THAT(run.context.said, testing::Not(testing::Contains(testing::HasSubstr("usual"))))
        << options;
  }
}

TEST(ClassWeights, InvalidWeightsAreRejected) {
  EXPECT_REFUSED(OptionRun(R"("class_weights": [1, 2])").run(), kOptionConflict, "/class_weights",
                 "2 numbers for 3 classes");
  EXPECT_REFUSED(OptionRun(R"("class_weights": {"clas1": 2})").run(), kOptionConflict,
                 "/class_weights", "'clas1'", "'class1'");
  EXPECT_REFUSED(OptionRun(R"("class_weights": [0, 0, 0])").run(), kOptionConflict,
                 "/class_weights", "all 0");
  OptionRun without_samples(R"("class_weights": {"class1": 0, "class2": 0})");
  for (std::int64_t i = 0; i < 30; ++i) without_samples.train->relabeled[i] = 1 + i % 2;
  EXPECT_REFUSED(without_samples.run(), kOptionConflict, "/class_weights", "training samples");
  OptionRun not_validated(R"("class_weights": {"class1": 0})");
  for (std::int64_t i = 0; i < 12; ++i) not_validated.validation->relabeled[i] = 1;
  EXPECT_REFUSED(not_validated.run(), kOptionConflict, "/class_weights", "validation samples",
                 "monitor: accuracy");
  OptionRun by_accuracy(R"("class_weights": {"class1": 0}, "monitor": "accuracy")");
  for (std::int64_t i = 0; i < 12; ++i) by_accuracy.validation->relabeled[i] = 1;
  EXPECT_NO_THROW(by_accuracy.run());
  OptionRun absent(R"("class_weights": "balanced")");
  for (std::int64_t i = 0; i < 30; ++i) absent.train->relabeled[i] = i % 2;
  EXPECT_REFUSED(absent.run(), kOptionConflict, "/class_weights", "'class2'");
}

TEST(MixedSamples, AreNotUsedInValidation) {
  OptionRun mixed(R"("mixup": 1, "optimizer": {"kind": "sgd", "learning_rate": 1e-12})"),
      plain(R"("mixup": 0, "optimizer": {"kind": "sgd", "learning_rate": 1e-12})");
  mixed.run();
  plain.run();
  EXPECT_NE(mixed.context.values("train/epoch_loss").back(),
            plain.context.values("train/epoch_loss").back());
  EXPECT_NEAR(mixed.context.values("validation/loss").back(),
              plain.context.values("validation/loss").back(), 1e-6);
}

TEST(MixedSamples, InvalidCombinationsAreRejected) {
  EXPECT_REFUSED(OptionRun(R"("cutmix": 1)").run(), kOptionConflict, "/cutmix", "mixup");
  EXPECT_REFUSED(OptionRun(R"("mixup": 1, "class_weights": "balanced")").run(), kOptionConflict,
                 "/train/class_weights", "mixup and cutmix");
}

TEST(Sampling, BalancedSamplingWithBalancedWeightsIsReported) {
  const auto says = [](const char* options) {
    OptionRun run(options);
    run.run();
    return std::ranges::count(run.context.said,
                              "sampling: balanced and class_weights: balanced both compensate for "
                              "rare classes: their samples are drawn more often and also weigh "
                              "more; turn one of them off to compensate only once");
  };
  EXPECT_EQ(says(R"("sampling": "balanced", "class_weights": "balanced")"), 1);
  EXPECT_EQ(says(R"("sampling": "balanced", "class_weights": [1, 2, 3])"), 0);
  EXPECT_EQ(says(R"("sampling": "balanced")"), 0);
  EXPECT_EQ(says(R"("class_weights": "balanced")"), 0);
}

TEST(Patience, KeepingTheLastWeightsIsReported) {
  const auto said = [](const char* options) {
    OptionRun run(options);
    run.run();
    const auto found = std::ranges::find_if(
        run.context.said, [](const std::string& line) { return line.starts_with("keep: last"); });
    return found == run.context.said.end() ? "" : *found;
  };
  EXPECT_EQ(
      said(R"("patience": 2, "keep": "last")"),
      "keep: last, with patience 2: if training stops early, the last weights are kept, which are "
      "that many validations past the best; set keep: best to keep the best weights");
  EXPECT_EQ(said(R"("patience": 2, "keep": "best")"), "");
  EXPECT_EQ(said(R"("patience": 2)"), "");
  EXPECT_EQ(said(R"("keep": "last")"), "");
}

TEST(Sampling, BalancedSamplingNeedsKnownLabels) {
  OptionRun run(R"("sampling": "balanced")");
  run.train->tells_labels = false;
  EXPECT_REFUSED(run.run(), kOptionConflict, "/sampling", "sampling: as_is");
}

}  // namespace
}  // namespace stages
