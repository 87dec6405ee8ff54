// End-to-end tests of heads and adapters on a given backbone.

#include <array>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class FineTuning : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make flowers102 --out data --classes 3 --per-class 26 --size 32 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Trains for six steps over three epochs, with a checkpoint after each step.
  Ended train(const std::string& model, const std::string& name, const std::string& fault = "",
              const std::string& more = "") {
    return run_shell(
        "RETORT_CACHE=$PWD/cache " + (fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') +
            RETORT_BINARY_DIR + "/bin/retort run finetune model=" + model +
            " model/backbone=tiny model.backbone.num_hidden_layers=1 data.root=data "
            "data.image_size=28 data.loader.workers=0 epochs=3 lr=0.01 train.batch_size=8 "
            "train.gradient_accumulation_steps=2 "
            "train.checkpoint.every.steps=1 memory.max_retries=0 run.dir=" +
            name + ' ' + more,
        folder_.path());
  }
  /// Trains a kind of model in a run named after it, unless another test has done so. Returns what
  /// training printed.
  const Ended& trained(const std::string& model) {
    static std::map<std::string, Ended> ended;
    if (!fs::exists(folder_ / model)) {
      ended[model] = train(model, model);
      folder_.keep();
    }
    return ended[model];
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  SharedFolder folder_;
};

TEST_F(FineTuning, ResumedAdaptersAreBitIdentical) {
  ASSERT_EQ(trained("lora").exit, 0);
  ASSERT_NE(train("lora", "run", "retort-worker/step:4:kill").exit, 0);
  const Ended gone_on = retort("resume run", folder_.path());
  ASSERT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_FALSE(weights("lora").empty());
  EXPECT_TRUE(weights("run") == weights("lora"));
  EXPECT_EQ(file_text(folder_ / "run/nodes/evaluate/predictions.csv"),
            file_text(folder_ / "lora/nodes/evaluate/predictions.csv"));
}

TEST_F(FineTuning, ResumedAdapterVariantsAreBitIdentical) {
  const std::array<std::string, 2> variants = {
      "model.dora=true", "model.dora=true model.initialization=pissa model.rank_stabilized=true"};
  for (const std::string& variant : variants) {
    const std::string number = std::to_string(&variant - variants.data());
    ASSERT_EQ(train("lora", "whole" + number, "", variant).exit, 0);
    ASSERT_NE(train("lora", "run" + number, "retort-worker/step:4:kill", variant).exit, 0);
    const Ended gone_on = retort("resume run" + number, folder_.path());
    ASSERT_EQ(gone_on.exit, 0) << gone_on.err;
    EXPECT_THAT(weights("whole" + number), HasSubstr("lora_magnitude_vector"));
    EXPECT_TRUE(weights("run" + number) == weights("whole" + number)) << variant;
    const Ended exported =
        retort("export whole" + number + " --adapter --out peft" + number, folder_.path());
    ASSERT_EQ(exported.exit, 0) << exported.err;
    EXPECT_TRUE(
        json::parse(file_text(folder_ / ("peft" + number) / "adapter_config.json")).at("use_dora"));
  }
}

TEST_F(FineTuning, ResumedFullTrainingIsBitIdentical) {
  const std::string rare = "train=one_epoch train.layer_decay=0.8 model.drop_path=0.2";
  ASSERT_EQ(train("full", "whole", "", rare).exit, 0);
  ASSERT_NE(train("full", "run", "retort-worker/step:4:kill", rare).exit, 0);
  const Ended gone_on = retort("resume run", folder_.path());
  ASSERT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_THAT(weights("whole"), HasSubstr("mlp.fc1.weight"));
  EXPECT_TRUE(weights("run") == weights("whole"));
}

TEST_F(FineTuning, FullTrainingStartsFromALinearProbe) {
  ASSERT_EQ(trained("linear_probe").exit, 0);
  const Ended tuned = train("full", "run", "", "train=one_epoch train.warm_start=linear_probe");
  ASSERT_EQ(tuned.exit, 0) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("the weights that the earlier run left frozen are "
                                   "taken from the backbone"));
  const Ended other =
      train("full", "other", "", "train=one_epoch train.warm_start=linear_probe seed=7");
  EXPECT_EQ(other.exit, 78) << other.err;
  EXPECT_THAT(other.err, HasSubstr("were trained on different frozen weights: 'random, seed "));
}

TEST_F(FineTuning, CheckpointHoldsOnlyTrainedWeights) {
  const Ended& ended = trained("lora");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("train: trainable params: "));
  EXPECT_THAT(ended.err, HasSubstr("Effective batch size: 16 (2 x 8)"));
  const std::string file = weights("lora");
  EXPECT_THAT(file, HasSubstr("self_attn.q_proj.lora_B.weight"));
  EXPECT_THAT(file, HasSubstr("head.weight"));
  EXPECT_THAT(file, Not(HasSubstr("mlp.fc1.weight")));
  EXPECT_LT(file.size(), 100'000u);
}

TEST_F(FineTuning, ResumingWithDifferentFrozenWeightsIsRejected) {
  ASSERT_EQ(trained("lora").exit, 0);
  ASSERT_EQ(train("lora", "other", "", "seed=7").exit, 0);
  ASSERT_EQ(retort("export lora --merged --out base", folder_.path()).exit, 0);
  ASSERT_EQ(retort("export other --merged --out another", folder_.path()).exit, 0);
  const Ended killed =
      train("lora", "run", "retort-worker/step:4:kill", "model.backbone.weights=base");
  EXPECT_THAT(killed.err, HasSubstr("'base': "));
  fs::copy_file(folder_ / "another/model.safetensors", folder_ / "base/model.safetensors",
                fs::copy_options::overwrite_existing);
  const Ended refused = retort("resume run", folder_.path());
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the input /model/backbone/weights has "));
  const Ended gone_on = retort("resume run --force", folder_.path());
  EXPECT_EQ(gone_on.exit, 78) << gone_on.err;
  EXPECT_THAT(gone_on.err,
              HasSubstr("the checkpoint was trained with different frozen weights: 'sha256 "));
}

TEST_F(FineTuning, HeadOnCachedFeaturesMatchesHeadOnImages) {
  ASSERT_EQ(trained("linear_probe").exit, 0);
  ASSERT_EQ(train("linear_probe", "plain", "", "features.cache=false").exit, 0);
  const json cached =
                 json::parse(file_text(folder_ / "linear_probe/nodes/train/training_metrics.json")),
             plain = json::parse(file_text(folder_ / "plain/nodes/train/training_metrics.json"));
  ASSERT_EQ(cached["train_losses"].size(), 3u);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_NEAR(cached["train_losses"][epoch], plain["train_losses"][epoch], 1e-5);
    EXPECT_NEAR(cached["val_losses"][epoch], plain["val_losses"][epoch], 1e-5);
  }
  EXPECT_THAT(train("linear_probe", "again", "", "lr=0.02").err,
              HasSubstr("features: reused from "));
  EXPECT_THAT(train("linear_probe", "larger", "", "data.image_size=42").err,
              HasSubstr("features: computed again: data.image_size was 28 and is now 42"));
}

TEST_F(FineTuning, FeaturesAreRecomputedForDifferentWeights) {
  ASSERT_EQ(trained("linear_probe").exit, 0);
  ASSERT_EQ(train("linear_probe", "other", "", "seed=7").exit, 0);
  ASSERT_EQ(retort("export linear_probe --merged --out base", folder_.path()).exit, 0);
  ASSERT_EQ(retort("export other --merged --out another", folder_.path()).exit, 0);
  ASSERT_EQ(train("linear_probe", "first", "", "model.backbone.weights=base").exit, 0);
  EXPECT_THAT(train("linear_probe", "again", "", "model.backbone.weights=base").err,
              HasSubstr("features: reused from "));
  fs::copy_file(folder_ / "another/model.safetensors", folder_ / "base/model.safetensors",
                fs::copy_options::overwrite_existing);
  const Ended changed = train("linear_probe", "changed", "", "model.backbone.weights=base");
  EXPECT_THAT(changed.err, HasSubstr("features: computed again: "));
}

TEST_F(FineTuning, RunCanBeEvaluatedAndCanPredict) {
  ASSERT_EQ(trained("linear_probe").exit, 0);
  const Ended evaluated = retort("evaluate linear_probe run.dir=evaluated", folder_.path());
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(file_text(folder_ / "evaluated/nodes/evaluate/predictions.csv"),
            file_text(folder_ / "linear_probe/nodes/evaluate/predictions.csv"));
  const Ended predicted =
      retort("predict linear_probe data/flowers-102/jpg/image_00001.jpg --top 1", folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("data/flowers-102/jpg/image_00001.jpg,"));
}

TEST_F(FineTuning, MissingWeightsAreReportedBeforeTheRun) {
  const Ended ended =
      run_shell("HF_HUB_CACHE=$PWD/hub " RETORT_BINARY_DIR
                "/bin/retort run finetune data.root=data model/backbone=clip_vit_b32 run.dir=run",
                folder_.path());
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0621]: hf:openai/clip-vit-base-patch32 is not in '"));
  EXPECT_THAT(ended.err,
              HasSubstr("help: fetch it with `retort data fetch hf:openai/clip-vit-base-patch32`"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
