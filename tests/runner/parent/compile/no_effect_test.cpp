#include "runner/parent/compile/option_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

/// Returns "pointer: message" for each option that has no effect, if the recipe has no other
/// mistakes.
std::vector<std::string> idle(const std::string& stages,
                              const std::vector<std::string>& overrides = {}) {
  Sources sources;
  const auto prepared = prepare_text("schema: 1\n" + stages, overrides, shipped_schemas(), sources);
  if (!prepared) {
    for (const Diagnostic& error : prepared.errors())
      ADD_FAILURE() << error.pointer << " " << error.message;
    return {};
  }
  std::vector<std::string> lines;
  for (const Diagnostic& one :
       options_without_effect(prepared->recipe.resolved, prepared->graph, shipped_schemas())) {
    EXPECT_EQ(one.severity, Severity::kWarning);
    EXPECT_NE(one.where.source, nullptr) << one.message;
    EXPECT_FALSE(one.help.empty());
    lines.push_back(one.pointer + ": " + one.message);
  }
  return lines;
}

/// A recipe in which an option has no effect, and the message about it.
struct Idle {
  std::string stages;
  std::string said;
};

const std::string kImages = "data: {kind: data.image_folder, root: x, caption: 'a {name}'}\n";
const std::string kMemory = "memory: {kind: memory.policy}\n";
const std::string kTower = "model: {kind: model.clip_vision}\n" + kMemory;
const std::string kClip = "model: {kind: model.clip, class_head: none}\n" + kMemory;
const std::string kFewShot =
    "data: {kind: data.few_shot, root: x}\nmodel: {kind: model.cross_transformer}\n" + kMemory;

std::string of_image_stage(const std::string& options) {
  return "data: {kind: data.image_folder, root: x, " + options + "}\n";
}
std::string of_fundus(const std::string& options) {
  return "data: {kind: data.fundus, root: x, " + options + "}\n";
}
std::string of_memory(const std::string& options) {
  return "memory: {kind: memory.policy, " + options + "}\n";
}
std::string of_episodes(const std::string& options) {
  return kFewShot + "train: {kind: train.episodic, " + options + "}\n";
}
std::string of_contrast(const std::string& options) {
  return kImages + kClip + "train: {kind: train.contrastive, monitor: loss, " + options + "}\n";
}
std::string of_schedule(const std::string& options) {
  return kImages + kTower + "train: {kind: train.supervised, schedule: {" + options + "}}\n";
}
std::string of_device(const std::string& options) {
  return kImages + "device: {select: cpu, " + options + "}\n";
}

std::vector<Idle> idle_options() {
  const std::string clahe = ": clahe.enabled is false", flat = ": flatten_sharpen.enabled is false",
                    frozen =
                        "the model's backbone is frozen (model.backbone.trainable: false), so ",
                    head = ": the model has no class head", cpu = ": device.select is cpu";
  std::vector<Idle> all = {
      {kImages + "python: auto\n",
       "/python: 'python' has no effect: the recipe has no Python code"},
      {of_image_stage("resize: {shape: square, crop_offset: round}"),
       "/data/resize/crop_offset: 'crop_offset' has no effect: shape is square, which crops "
       "nothing"},
      {of_image_stage("loader: {prefetch: 4}"),
       "/data/loader/prefetch: 'prefetch' has no effect: without workers, no batch is "
       "prefetched"},
      {of_fundus("crop_to_disc: {threshold: 0.2}"),
       "/data/crop_to_disc/threshold: 'threshold' has no effect: crop_to_disc.enabled is false"},
      {of_fundus("clahe: {clip_limit: 2}"),
       "/data/clahe/clip_limit: 'clip_limit' has no effect" + clahe},
      {of_fundus("clahe: {tiles: [4, 4]}"), "/data/clahe/tiles: 'tiles' has no effect" + clahe},
      {"data: {kind: data.image_table, root: x, table: t, label: l, part: p, split: {seed: 4}}\n",
       "/data/split: 'split' has no effect: the column \"p\" says which part an image belongs to"},
      {of_memory("min_micro_batch: 2"),
       "/memory/min_micro_batch: 'min_micro_batch' has no effect: nothing chooses a smaller "
       "micro-batch: allow is \"nothing\", micro_batch is \"auto\", and max_retries is 0"},
      {of_memory("recompute_batch_norm: twice"),
       "/memory/recompute_batch_norm: 'recompute_batch_norm' has no effect: "
       "activation_checkpointing is none: nothing is recomputed"},
      {of_episodes("loss: {variance: 1}"),
       "/train/loss/variance: 'variance' has no effect: " + frozen + "it trains nothing"},
      {of_episodes("loss: {covariance: 1}"),
       "/train/loss/covariance: 'covariance' has no effect: " + frozen + "it trains nothing"},
      {of_episodes("loss: {variance_target: 2}"),
       "/train/loss/variance_target: 'variance_target' has no effect: variance is 0"},
      {of_episodes("loss: {deviation: biased}"),
       "/train/loss/deviation: 'deviation' has no effect: variance is 0"},
      {of_episodes("legacy_double_forward: true"),
       "/train/legacy_double_forward: 'legacy_double_forward' has no effect: the loss has neither "
       "a variance nor a covariance term"},
      {of_contrast("loss: {class_weight: 2}"),
       "/train/loss/class_weight: 'class_weight' has no effect" + head},
      {of_contrast("loss: {balance_classes: false}"),
       "/train/loss/balance_classes: 'balance_classes' has no effect" + head},
      {of_contrast("loss: {label_smoothing: 0.1}"),
       "/train/loss/label_smoothing: 'label_smoothing' has no effect" + head},
      {kImages + "model: {kind: model.clip}\n" + kMemory +
           "train: {kind: train.contrastive, loss: {contrastive_weight: 0, targets: same_class}}\n",
       "/train/loss/targets: 'targets' has no effect: contrastive_weight is 0"},
      {kImages + "model: {kind: model.clip}\n" + kMemory +
           "train: {kind: train.contrastive, gradient_accumulation_steps: 2, loss: "
           "{contrastive_weight: 0, negatives: micro_batch}}\n",
       "/train/loss/negatives: 'negatives' has no effect: contrastive_weight is 0"},
      {of_contrast("learning_rate_factors: {class_head: 2}"),
       "/train/learning_rate_factors/class_head: 'class_head' has no effect" + head},
      {"model: {kind: model.clip, class_head: none, num_classes: 3}\n",
       "/model/num_classes: 'num_classes' has no effect: class_head is none"},
      {"model: {kind: model.clip, weights: w.safetensors, logit_scale: 1}\n",
       "/model/logit_scale: 'logit_scale' has no effect: the weights contain their own"},
      {"model: {kind: model.lora, adapter: a, initialization: gaussian}\n",
       "/model/initialization: 'initialization' has no effect: the adapter comes with its own "
       "weights"},
      {of_schedule("kind: one_cycle, cycle_momentum: false, base_momentum: 0.8"),
       "/train/schedule/base_momentum: 'base_momentum' has no effect: cycle_momentum is false"},
      {of_schedule("kind: one_cycle, cycle_momentum: false, max_momentum: 0.9"),
       "/train/schedule/max_momentum: 'max_momentum' has no effect: cycle_momentum is false"},
      {of_schedule("kind: warmup_cosine, warmup_steps: 0, start_factor: 0.1"),
       "/train/schedule/start_factor: 'start_factor' has no effect: there is no warm-up"},
      {"data: {kind: data.fundus, root: x}\nmodel: {kind: model.cnn}\n" + kMemory +
           "train: {kind: train.binary, classes: [0, 1]}\n"
           "evaluate: {kind: evaluate.pairwise_ensemble, decide_by: majority, temperature: 2}\n",
       "/evaluate/temperature: 'temperature' has no effect: decide_by is majority, and "
       "temperature affects only probabilities and the other voting rules"},
      {of_contrast("epochs: 1") + "evaluate: {kind: evaluate.zero_shot, class_head: false}\n",
       "/evaluate/class_head: 'class_head' has no effect" + head},
      {of_device("exclude: [1]"), "/device/exclude: 'exclude' has no effect" + cpu},
      {of_device("min_gpu_memory_mb: 9"),
       "/device/min_gpu_memory_mb: 'min_gpu_memory_mb' has no effect" + cpu},
      {of_device("wait_for_gpu: true"), "/device/wait_for_gpu: 'wait_for_gpu' has no effect" + cpu},
      {of_device("fallback: [cpu]"), "/device/fallback: 'fallback' has no effect" + cpu},
      {kImages + "device: {select: auto, wait_timeout_minutes: 1}\n",
       "/device/wait_timeout_minutes: 'wait_timeout_minutes' has no effect: device.wait_for_gpu is "
       "false"},
      {of_device("check_interval_seconds: 1"),
       "/device/check_interval_seconds: 'check_interval_seconds' has no effect" + cpu},
  };
  for (const char* option : {"kernel_size: 5", "brightness: 5", "contrast: 5", "sharpen: 5"}) {
    const std::string key = std::string(option).substr(0, std::string(option).find(':'));
    all.push_back({of_fundus("flatten_sharpen: {" + std::string(option) + "}"),
                   "/data/flatten_sharpen/" + key + ": '" + key + "' has no effect" + flat});
  }
  for (const char* option : {"batch_size: 5", "storage: bf16"}) {
    const std::string key = std::string(option).substr(0, std::string(option).find(':'));
    all.push_back({kImages + "model: {kind: model.linear_probe}\n" + kMemory +
                       "features: {kind: data.features, cache: false, " + option + "}\n",
                   "/features/" + key + ": '" + key +
                       "' has no effect: cache is false, so no features are kept"});
  }
  for (const char* kind : {"cub200", "stanford_cars"}) {
    all.push_back(
        {"data: {kind: data." + std::string(kind) + ", root: x, validation: 0, split_seed: 3}\n",
         "/data/split_seed: 'split_seed' has no effect: validation is 0, so no images are held "
         "out"});
  }
  return all;
}

TEST(NoEffect, EachIdleOptionIsReportedWithTheReason) {
  for (const Idle& one : idle_options())
    EXPECT_THAT(idle(one.stages), Contains(one.said)) << one.stages;
}

TEST(NoEffect, WarningsAboutValidationOptionsExplainWhyDataIsMissing) {
  const std::string birds = "data: {kind: data.cub200, root: x, validation: 0}\n" + kTower;
  EXPECT_THAT(
      idle(birds +
           "train: {kind: train.supervised, monitor: accuracy, checkpoint: {keep_best: 3}}\n"),
      ElementsAre(
          "/train/monitor: 'monitor' has no effect: there is no validation data",
          "/train/checkpoint/keep_best: 'keep_best' has no effect: there is no validation data"));
  EXPECT_THAT(idle("data: {kind: data.few_shot, root: x, validation: null}\nmodel: {kind: "
                   "model.cross_transformer}\n" +
                   kMemory + "train: {kind: train.episodic, validation_episodes: 9}\n"),
              ElementsAre("/train/validation_episodes: 'validation_episodes' has no effect: there "
                          "is no validation data"));
}

TEST(NoEffect, ValidationFractionHasNoEffectWithFolds) {
  const std::string train = kTower + "train: {kind: train.supervised, monitor: accuracy}\n";
  EXPECT_THAT(
      idle("data: {kind: data.cub200, root: x, validation: 0, split_seed: 3, folds: {}}\n" + train),
      ElementsAre("/data/validation: 'validation' has no effect: folds divide all training "
                  "images"));
}

TEST(NoEffect, PythonDataDeclaresWhetherValidationExists) {
  const auto stages = [](const std::string& parts) {
    return "data: {kind: data.python, entry: 'my_data.py:make', " + parts + "}\n" + kTower +
           "train: {kind: train.supervised, monitor: accuracy}\n";
  };
  const std::string said = "/train/monitor: 'monitor' has no effect: there is no validation data";
  EXPECT_THAT(idle(stages("parts: {train: {}, validation: {}}")), IsEmpty());
  EXPECT_THAT(idle(stages("split: {train: 0.7, validation: 0.1, test: 0.2}")), IsEmpty());
  EXPECT_THAT(idle(stages("split: {}, folds: {count: 3}")), IsEmpty());
  EXPECT_THAT(idle(stages("parts: {train: {}}")), ElementsAre(said));
  EXPECT_THAT(idle(stages("split: {}")), ElementsAre(said));
}

TEST(NoEffect, ImageFoldersShowWhetherValidationExists) {
  const TemporaryFolder folder;
  const auto stages = [&](const std::string& split) {
    return "data: {kind: data.image_folder, root: " + (folder / "root").string() + ", split: {" +
           split + "}}\n" + kTower + "train: {kind: train.supervised, monitor: accuracy}\n";
  };
  const std::string said = "/train/monitor: 'monitor' has no effect: there is no validation data";
  EXPECT_THAT(idle(stages("train: 0.8, test: 0.2")), ElementsAre(said));  // the root does not exist
  EXPECT_THAT(idle(stages("train: 0.7, validation: 0.1, test: 0.2")), IsEmpty());
  std::filesystem::create_directories(folder / "root/train/oak");
  EXPECT_THAT(idle(stages("train: 0.7, validation: 0.1, test: 0.2")), ElementsAre(said));
  std::filesystem::create_directories(folder / "root/dev/oak");
  EXPECT_THAT(idle(stages("train: 0.8, test: 0.2")), IsEmpty());
}

TEST(NoEffect, ConditionOnConsumersChecksEachConsumer) {
  const std::string gram = "memory: {kind: memory.policy, loss_form: gram}\n";
  const std::string episodes =
      "data: {kind: data.few_shot, root: x}\n"
      "model: {kind: model.cross_transformer, backbone: {kind: conv}}\n" +
      gram;
  const std::string said =
      "/memory/loss_form: 'loss_form' has no effect: no loss here has a covariance term";
  EXPECT_THAT(
      idle(episodes + "train: {kind: train.episodic}\nevaluate: {kind: evaluate.episodic}\n"),
      ElementsAre(said));
  EXPECT_THAT(idle(kImages + "model: {kind: model.clip_vision}\n" + gram +
                   "train: {kind: train.supervised}\n"),
              ElementsAre(said));
  EXPECT_THAT(
      idle(episodes + "train: {kind: train.episodic, loss: {covariance: 1}}\nevaluate: {kind: "
                      "evaluate.episodic}\n"),
      IsEmpty());
  EXPECT_THAT(idle(gram), IsEmpty());
}

TEST(NoEffect, OptionWithAnEffectIsNotReported) {
  EXPECT_THAT(idle(of_fundus("clahe: {enabled: true, clip_limit: 2}")), IsEmpty());
  EXPECT_THAT(idle(of_memory("recompute_batch_norm: twice, activation_checkpointing: block")),
              IsEmpty());
  EXPECT_THAT(idle("data: {kind: data.few_shot, root: x}\n"
                   "model: {kind: model.cross_transformer, backbone: {kind: conv}}\n" +
                   kMemory +
                   "train: {kind: train.episodic, loss: {variance: 1, covariance: 1, "
                   "variance_target: 2}}\n"),
              IsEmpty());
}

TEST(NoEffect, DefaultsAreReportedOnlyOnTheCommandLine) {
  EXPECT_THAT(idle(of_fundus("clahe: {clip_limit: 3.0}")), IsEmpty());
  EXPECT_THAT(
      idle(of_fundus("clahe: {tiles: [8, 8]}"), {"data.clahe.clip_limit=3.0"}),
      ElementsAre("/data/clahe/clip_limit: 'clip_limit' has no effect: clahe.enabled is false"));
}

TEST(NoEffect, ForeachNodesReportAnIdleOptionOnce) {
  EXPECT_EQ(idle("data: {kind: data.fundus, root: '${item.r}', foreach: {r: [a, b]}, clahe: "
                 "{clip_limit: 2}}\n")
                .size(),
            1u);
}

}  // namespace
}  // namespace runner
