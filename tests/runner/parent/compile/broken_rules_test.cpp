#include "runner/parent/compile/compile.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "tests/support/broken_rules_fixture.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::ordered_json;

TEST_F(BrokenRules, CalibrationWithRefitIsRejected) {
  const std::string options =
      R"({"calibration": {"temperature": true, "cut_points": false, "sensitivity": null}, "refit": )";
  EXPECT_THAT(broken("train.logistic_regression", options + "true}"),
              ElementsAre("/train/calibration: calibration needs data that the head is not fitted "
                          "to, but with refit: true it is also fitted to the validation data"));
  EXPECT_THAT(broken("train.logistic_regression", options + "false}"), IsEmpty());
}

TEST_F(BrokenRules, MicroBatchOfOneHasNoNegatives) {
  const std::string options =
      R"({"gradient_accumulation_steps": 4, "loss": {"negatives": "micro_batch"}, "batch_size": )";
  EXPECT_THAT(broken("train.contrastive", options + "2}"), IsEmpty());
  EXPECT_THAT(broken("train.contrastive", options + "1}"),
              ElementsAre("/train/loss/negatives: negatives: micro_batch compares within "
                          "micro-batches of batch_size 1: there is nothing to compare an image "
                          "with, and the loss is always 0"));
}

TEST_F(BrokenRules, DefaultsOfEveryKindBreakNoRules) {
  for (const Kind& kind : shipped().kinds()) {
    Value value = from_json(Json{{"kind", kind.name}});
    if (!shipped().validate(value, kind.file).empty()) continue;  // an option is required
    EXPECT_THAT(broken(kind.name, "{}"), IsEmpty()) << kind.name;
  }
}

TEST_F(BrokenRules, IndivisibleTowerSizesAreReportedTogether) {
  EXPECT_THAT(
      broken("model.clip_vision",
             R"({"hidden_size": 770, "image_size": 225, "features": "projected"})"),
      ElementsAre("/model/hidden_size: hidden_size 770 is not a multiple of num_attention_heads 12",
                  "/model/image_size: image_size 225 is not a multiple of patch_size 32",
                  "/model/features: these features need a projection, but projection_dim is null"));
  EXPECT_THAT(broken("model.clip_vision",
                     R"({"image_size": 224, "features": "projected", "projection_dim": 512})"),
              IsEmpty());
  EXPECT_THAT(
      broken("model.linear_probe", R"({"backbone": {"kind": "vit", "image_size": 100}})"),
      ElementsAre("/model/backbone/image_size: image_size 100 is not a multiple of patch_size 16"));
}

TEST_F(BrokenRules, ImageSizeMustFitTheModel) {
  const std::string small = R"({"root": "photos", "image_size": 50})";
  EXPECT_THAT(
      of_sizes(small, "model.clip_vision", R"({"patch_size": 8})"),
      ElementsAre("/model/patch_size: the data's image size 50 is not a multiple of patch_size 8"));
  EXPECT_THAT(
      of_sizes(small, "model.clip_vision", R"({"patch_size": 10, "image_size": 100})"),
      ElementsAre(
          "/model/image_size: the data's images are 50 pixels wide, but the model expects 100"));
  EXPECT_THAT(of_sizes(small, "model.clip_vision", R"({"patch_size": 10, "image_size": 50})"),
              IsEmpty());
  EXPECT_THAT(of_sizes(small, "model.clip_vision", R"({"patch_size": 10})"), IsEmpty());
  // The weights may have a different size than the recipe; this is checked when they are read.
  EXPECT_THAT(
      of_sizes(small, "model.linear_probe", R"({"backbone": {"kind": "vit", "patch_size": 8}})"),
      IsEmpty());
}

TEST_F(BrokenRules, MultiLabelFoldersRequireMatchingStagesAndOptions) {
  const std::string sets = R"({"root": "photos", "multi_label": true})",
                    classes = R"({"root": "photos"})", model = "model.clip_vision";
  EXPECT_THAT(of_sizes(sets, model, "{}", "train.multi_label"), IsEmpty());
  EXPECT_THAT(of_sizes(classes, model, "{}"), IsEmpty());
  EXPECT_THAT(
      of_sizes(classes, model, "{}", "train.multi_label"),
      ElementsAre("/data/multi_label: train.multi_label needs images with any number of labels, "
                  "but class folders provide one class per image"));
  EXPECT_THAT(of_sizes(sets, model, "{}"),
              ElementsAre("/data/multi_label: train.supervised needs one class for each image, but "
                          "with multi_label an image can be in several class folders"));
  EXPECT_THAT(
      broken("data.image_folder",
             R"({"root": "photos", "multi_label": true, "caption": "a {name}", "make": {}})"),
      ElementsAre("/data/caption: a caption names the class folder of an image, but with "
                  "multi_label an image can be in several",
                  "/data/make: make uses the same file names in all class folders, but with "
                  "multi_label files with the same name are one image"));
  EXPECT_THAT(
      broken("data.image_folder", R"({"root": "photos", "group_pattern": "^(.)_", "make": {}})"),
      ElementsAre("/data/make: group_pattern finds groups in file names, but the images that make "
                  "generates have none"));
}

TEST_F(BrokenRules, FoldsAreRejectedWithAPublishedValidationSet) {
  EXPECT_THAT(
      broken("data.flowers102", R"({"root": "x", "folds": {}})"),
      ElementsAre("/data/folds: folds divide the training images, but these parts include a "
                  "validation set of their own"));
  EXPECT_THAT(
      broken("data.flowers102", R"({"root": "x", "parts": "train_and_validation", "folds": {}})"),
      IsEmpty());
}

TEST_F(BrokenRules, ContradictoryAdapterLayerOptionsAreRejected) {
  EXPECT_THAT(broken("model.lora", R"({"layers_pattern": "h"})"),
              ElementsAre("/model/layers_pattern: layers_pattern has no effect: layers is null"));
  EXPECT_THAT(
      broken("model.lora", R"({"layers": [1], "targets": ".*q"})"),
      ElementsAre("/model/layers: layers cannot be used when targets is a regular expression"));
  EXPECT_THAT(broken("model.lora", R"({"layers": [1], "layers_pattern": "h"})"), IsEmpty());
}

TEST_F(BrokenRules, NewTrainingKindFollowsTheRulesOfTheShippedOne) {
  std::ifstream file(RETORT_SOURCE_DIR "/scripts/templates/train.schema.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<SchemaFile> files(embedded_schemas().begin(), embedded_schemas().end());
  files.push_back({"train/novel.schema.json", text});
  const auto schemas = SchemaSet::load(files);
  ASSERT_TRUE(schemas) << schemas.errors()[0].message;
  for (
      const std::string options : {
          R"({"patience": 3, "keep": "best"})",
          R"({"learning_rate_factors": {"backbone": 0.1}, "parameter_groups": [{"match": "head", "frozen": true}]})",
          R"({"schedule": {"kind": "cosine", "min_learning_rate": 0.0005}, "learning_rate_factors": {"head": 0.1}})",
          R"({"parameter_groups": [{"match": "c"}]})",
      }) {
    const auto shipped_ones = broken("train.supervised", options, false);
    EXPECT_THAT(shipped_ones, Not(IsEmpty())) << options;
    EXPECT_EQ(broken("train.novel", options, false, *schemas), shipped_ones) << options;
  }
  const std::string small = R"({"root": "photos", "image_size": 50})";
  for (const char* model : {R"({"patch_size": 8})", R"({"patch_size": 10, "image_size": 100})"}) {
    const auto shipped_ones = of_sizes(small, "model.clip_vision", model);
    EXPECT_THAT(shipped_ones, Not(IsEmpty())) << model;
    EXPECT_EQ(of_sizes(small, "model.clip_vision", model, "train.novel", *schemas), shipped_ones)
        << model;
  }
}

TEST_F(BrokenRules, ContradictorySplitsAndCropsAreReported) {
  EXPECT_THAT(
      broken("data.image_folder", R"({"root": "x", "split": {"train": 0.9, "test": 0.2},
                                              "resize": {"shape": "square", "crop_fraction": 0.9},
                                              "augment": {"random_resized_crop": {"scale": [1, 0.5], "ratio": [2, 1]}}})"),
      ElementsAre(
          "/data/split/train: the fractions for training, validation and test add up to more "
          "than 1",
          "/data/resize/crop_fraction: shape: square crops nothing, so crop_fraction must be 1",
          "/data/augment/random_resized_crop/scale: the first number of 'scale' is larger than the "
          "second",
          "/data/augment/random_resized_crop/ratio: the first number of 'ratio' is larger than the "
          "second"));
  EXPECT_THAT(broken("data.image_folder",
                     R"({"root": "x", "split": {"train": 0.7, "validation": 0.2, "test": 0.1}})"),
              IsEmpty());
  EXPECT_THAT(
      broken("data.image_folder", R"({"root": "x", "resize": {"crop_fraction": 1e-9}})"),
      ElementsAre(
          "/data/resize/crop_fraction: image_size / crop_fraction is more than a million pixels"));
  EXPECT_THAT(broken("data.cub200", R"({"root": "x", "validation": 1})"),
              ElementsAre("/data/validation: validation: 1 leaves no images for training"));
}

TEST_F(BrokenRules, AllocatorDividesOnlyFixedSizeSegments) {
  EXPECT_THAT(
      broken("memory.policy",
             R"({"allocator": {"expandable_segments": true, "max_split_size_mb": 64}})"),
      ElementsAre("/memory/allocator/max_split_size_mb: max_split_size_mb cannot be combined with "
                  "expandable_segments"));
}

/// Returns "pointer: message" for each error in a recipe, including broken rules.
std::vector<std::string> wrong_with(const std::string& stages) {
  Sources sources;
  auto prepared = prepare_text("schema: 1\n" + stages, {}, shipped_schemas(), sources);
  std::vector<std::string> lines;
  for (const Diagnostic& error : prepared ? prepared->broken_rules : prepared.errors()) {
    EXPECT_NE(error.where.source, nullptr) << error.message;
    EXPECT_FALSE(error.help.empty()) << error.message;
    lines.push_back(error.pointer + ": " + error.message);
  }
  return lines;
}

const std::string kPhotos = "data: {kind: data.image_folder, root: photos}\n";
const std::string kCaptioned =
    "data: {kind: data.image_folder, root: photos, caption: 'a {name}'}\n";
const std::string kPolicy = "memory: {kind: memory.policy}\n";
const std::string kVision = "model: {kind: model.clip_vision}\n" + kPolicy;
const std::string kEpisodes =
    "data: {kind: data.few_shot, root: x}\nmodel: {kind: model.few_shot_transformer}\n" + kPolicy;

/// Errors that a worker would report but that the recipe's text already shows.
TEST_F(BrokenRules, ErrorsVisibleInTheRecipeNeedNoWorker) {
  EXPECT_THAT(wrong_with(kPhotos + kVision +
                         "train: {kind: train.supervised, mixup: 0.2, class_weights: {a: 2}}"),
              ElementsAre("/train/class_weights: class_weights apply to samples of one class, but "
                          "mixup and cutmix mix samples of two"));
  EXPECT_THAT(wrong_with(kPhotos + kVision + "train: {kind: train.supervised, mixup: 0.2}"),
              IsEmpty());
  EXPECT_THAT(
      wrong_with(kPhotos + kVision + "train: {kind: train.supervised, class_weights: balanced}"),
      IsEmpty());
  EXPECT_THAT(
      wrong_with(kPhotos + "model: {kind: model.few_shot_transformer}\n" + kPolicy +
                 "train: {kind: train.supervised}\nevaluate: {kind: evaluate.classification}"),
      ElementsAre("/model/kind: this model learns from episodes, but train.supervised uses "
                  "single samples"));
  EXPECT_THAT(wrong_with(kPhotos + kVision + "train: {kind: train.episodic}"),
              ElementsAre("/model/kind: train.episodic trains on episodes, but this model does not "
                          "learn from episodes"));
  EXPECT_THAT(wrong_with(kPhotos + kVision + "train: {kind: train.contrastive}"),
              ElementsAre("/model/kind: the model does not take captions as input",
                          "/data/caption: the training data has no captions"));
  EXPECT_THAT(
      wrong_with(kEpisodes + "train: {kind: train.episodic, shots: 5}\n"
                             "evaluate: {kind: evaluate.episodic, shots: 1}"),
      ElementsAre(
          "/evaluate/shots: the prototypes are learned for episodes of 5 shots, but these have 1"));
  EXPECT_THAT(wrong_with(kEpisodes + "train: {kind: train.episodic, shots: 5, ways: 3}\n"
                                     "evaluate: {kind: evaluate.episodic, shots: 5, ways: 3}"),
              IsEmpty());
  EXPECT_THAT(wrong_with(kEpisodes + "train: {kind: train.episodic, loss: {classification: 0}}"),
              ElementsAre("/train/loss/classification: all loss terms have weight 0"));
  EXPECT_THAT(
      wrong_with(kEpisodes +
                 "train: {kind: train.episodic}\nevaluate: {kind: evaluate.classification}"),
      ElementsAre("/train/kind: the model was trained on episodes, but this evaluation uses "
                  "single samples"));
  EXPECT_THAT(wrong_with(kPhotos + kVision +
                         "train: {kind: train.supervised}\nevaluate: {kind: evaluate.episodic}"),
              ElementsAre("/train/kind: the model was not trained on episodes"));
  EXPECT_THAT(wrong_with(kPhotos + kVision +
                         "train: {kind: train.supervised}\nevaluate: {kind: evaluate.zero_shot}"),
              ElementsAre("/model/kind: the model does not take text as input"));
  EXPECT_THAT(
      wrong_with(kCaptioned + "model: {kind: model.clip, class_head: none}\n" + kPolicy +
                 "train: {kind: train.contrastive, frozen_epochs: 1}"),
      ElementsAre(
          "/train/frozen_epochs: frozen_epochs trains the class head alone, but the model has none",
          "/train/monitor: monitor: accuracy needs a class head, but the model has none"));
  EXPECT_THAT(
      wrong_with(kPhotos +
                 "model: {kind: model.clip_vision}\nmemory: {kind: memory.policy, micro_batch: 4}\n"
                 "train: {kind: train.supervised, gradient_accumulation_steps: 2}"),
      ElementsAre(
          "/train/gradient_accumulation_steps: gradient_accumulation_steps is 2 together with "
          "micro_batch 4: both split the batch"));
  EXPECT_THAT(wrong_with(kPhotos + kVision +
                         "train: {kind: train.supervised, parameter_groups: [{match: head, name: "
                         "a, frozen: true}, {match: '**', name: a, frozen: true}]}"),
              ElementsAre("/train/parameter_groups: two groups have the same name"));
  EXPECT_THAT(
      wrong_with("memory: {kind: memory.policy, on_oom: [stop, cpu], on_oom_policy: legacy, "
                 "max_retries: auto}"),
      ElementsAre(
          "/memory/max_retries: on_oom_policy: legacy needs a number of retries",
          "/memory/on_oom: 'stop' comes first in on_oom: the actions after it are never reached"));
}

TEST_F(BrokenRules, NodesOfOneForeachReportAnErrorOnce) {
  Graph graph;
  const Node node = node_of("model.clip_vision", R"({"hidden_size": 770})", shipped());
  graph.nodes = {node, node};
  EXPECT_EQ(broken_rules(graph, shipped()).size(), 1);
}

TEST_F(BrokenRules, UnreadableRuleIsAnErrorInItsSchema) {
  const SchemaTexts texts = schema_texts(
      {{"model/odd.schema.json",
        R"({"title": "model.odd", "description": "A test's.", "x-version": 1, "x-outputs": {"model": "model"},
            "x-rules": [{"rule": "width >", "at": "width", "message": "m", "help": "h"}],
            "type": "object", "additionalProperties": false, "properties": {"kind": {"const": "model.odd"}}})"}});
  const auto schemas = SchemaSet::load(texts.files);
  ASSERT_FALSE(schemas);
  EXPECT_EQ(schemas.errors()[0].message,
            "schemas/model/odd.schema.json: 'width >': a value is missing");
  EXPECT_EQ(schemas.errors()[0].pointer, "/x-rules");
}

TEST_F(BrokenRules, AutomaticAugmentationsExcludeEachOther) {
  const auto augmented = [](const std::string& augment) {
    return broken("data.image_folder", R"({"root": "x", "augment": {)" + augment + "}}");
  };
  for (const std::string one :
       {R"("rand_augment": {})", R"("trivial_augment_wide": {})", R"("auto_augment": {})",
        R"("augmix": {})", R"("three_augment": true)",
        R"("rand_augment": {}, "grayscale": 0.1, "gaussian_blur": {}, "random_erasing": {})"})
    EXPECT_THAT(augmented(one), IsEmpty()) << one;
  EXPECT_THAT(augmented(R"("rand_augment": {}, "three_augment": true)"),
              ElementsAre("/data/augment/rand_augment: rand_augment is set together with another "
                          "automatic augmentation"));
  EXPECT_THAT(augmented(R"("trivial_augment_wide": {}, "augmix": {})"),
              ElementsAre("/data/augment/trivial_augment_wide: trivial_augment_wide is set "
                          "together with another automatic augmentation"));
  EXPECT_THAT(augmented(R"("auto_augment": {}, "augmix": {}, "three_augment": true)"),
              ElementsAre("/data/augment/auto_augment: auto_augment is set together with another "
                          "automatic augmentation",
                          "/data/augment/augmix: augmix is set together with three_augment"));
}

TEST_F(BrokenRules, ContradictoryAugmentationsAreReported) {
  EXPECT_THAT(
      broken("data.image_folder", R"({"root": "x", "augment": {
                 "rand_augment": {"magnitude": 31},
                 "gaussian_blur": {"radius": [2, 1]},
                 "random_erasing": {"scale": [0.5, 0.1], "ratio": [2, 1]}}})"),
      testing::UnorderedElementsAre(
          "/data/augment/rand_augment/magnitude: magnitude is 31, but num_magnitude_bins is 31",
          "/data/augment/gaussian_blur/radius: the first number of 'radius' is larger than the "
          "second",
          "/data/augment/random_erasing/scale: the first number of 'scale' is larger than the "
          "second",
          "/data/augment/random_erasing/ratio: the first number of 'ratio' is larger than the "
          "second"));
}

}  // namespace
}  // namespace runner
