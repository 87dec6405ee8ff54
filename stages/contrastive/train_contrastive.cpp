#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/contrastive/caption_rows.h"
#include "stages/contrastive/contrastive_loss.h"
#include "stages/contrastive/sigmoid_loss.h"
#include "stages/text/class_text.h"
#include "stages/train/balanced_samples.h"
#include "stages/train/class_weights.h"
#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

enum class RightCaptions { kOwn, kEqual, kOfClass };

struct ContrastiveOptions {
  double contrastive_weight = 1, class_weight = 1;
  RightCaptions right = RightCaptions::kOwn;
  bool is_sigmoid = false;         ///< each image-caption pair is classified independently
  bool asks_for_accuracy = false;  ///< the class head's accuracy decides which epoch is best
  bool asks_for_classes = false;   ///< validation measures zero-shot accuracy
  std::int64_t frozen_epochs = 0;
  std::int64_t declared_parts = 1;  ///< gradient_accumulation_steps
  std::int64_t compared = 0;        ///< number of pairs that are compared with each other; 0: all
                                    ///< pairs of the batch
  bool balances_classes = false;    ///< in the class head's loss
  bool balances_samples = false;
  double label_smoothing = 0;
  CaptionRowsOptions captions;
};

/// The classes of the dataset.
struct Classes {
  std::int64_t count = 0;
  TokenizedTexts captions = {};  ///< one per class; undefined if they are not needed
  bool are_learned = false;      ///< predicted by the model's class head
  at::Tensor weights = {};       ///< (count), in training; undefined: all weights are 1
};

/// Symmetric InfoNCE (contrastive_loss.h) or the sigmoid loss (sigmoid_loss.h) for the pairs in a
/// batch, plus the cross-entropy of the class head if the model has one. A unit is an image with
/// its caption.
class ContrastiveStep final : public TrainingStep {
 public:
  ContrastiveStep(const Model& model, const ContrastiveOptions& options, CaptionRows of_training,
                  std::optional<CaptionRows> of_validation, const Classes& classes)
      : model_(model),
        options_(options),
        of_training_(std::move(of_training)),
        of_validation_(std::move(of_validation)),
        classes_(classes) {}

  std::vector<LossTerm> terms() const override {
    std::vector<LossTerm> terms;
    if (options_.contrastive_weight > 0) {
      const Coupling coupling = options_.compared > 0 ? Coupling::kPerGroup : Coupling::kWholeBatch;
      terms.push_back(
          {.name = "contrastive", .coupling = coupling, .samples_in_group = options_.compared});
    }
    if (classes_.are_learned) terms.push_back({"class", Coupling::kPerSample});
    return terms;
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    if (!classes_.are_learned) return {};
    const at::Tensor labels = batch["label"].contiguous();
    const auto* const label = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t unit = 0; unit < batch.units(); ++unit) {
      if (label[unit] >= 0 && label[unit] < classes_.count) continue;
      return BadUnit{unit, ErrorCode::kLabelOutOfRange,
                     "label " + std::to_string(label[unit]) + " is outside the class head's " +
                         std::to_string(classes_.count) + " classes"};
    }
    return {};
  }

  std::string why_not_replayed() const override {
    return "train.contrastive embeds each distinct text of a batch once, and their number differs "
           "between batches";
  }

  /// Class weights apply to training only. The class loss is divided by the total weight of the
  /// whole batch, however the batch is split.
  Batch arrange(const Batch& batch, BatchUse use) const override {
    const bool is_training = use == BatchUse::kTraining;
    NamedTensors besides;
    if (is_training && classes_.weights.defined()) {
      const at::Tensor labels = batch["label"];
      const double sum =
          labels.is_meta() ? 1 : classes_.weights.index_select(0, labels).sum().item<double>();
      besides.set("class_scale",
                  torch::full({batch.units()}, static_cast<double>(batch.units()) / sum,
                              torch::TensorOptions(at::kFloat).device(labels.device())));
    }
    if (is_training || !of_validation_) return of_training_.arranged(batch, besides);
    return of_validation_->arranged(batch, besides, classes_.captions.ids);
  }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    NamedTensors encoded;
    {
      const ScopedInput images(network, "image");
      encoded = model_.forward(network, {{"image", part["image"]}});
    }
    const ScopedInput texts(network, "tokens");
    const at::Tensor tokens = part["tokens"], embeddings = encoded.at("image_embeddings");
    encoded.set("text_embeddings",
                tokens.size(0) > 0
                    ? model_.forward(network, {{"tokens", tokens}}).at("text_embeddings")
                    : embeddings.new_empty({0, embeddings.size(1)}));
    if (part.tensors().contains("more_tokens")) {
      const at::Tensor classes = part["more_tokens"];
      encoded.set("class_embeddings",
                  classes.size(0) > 0
                      ? model_.forward(network, {{"tokens", classes}}).at("text_embeddings")
                      : embeddings.new_empty({0, embeddings.size(1)}));
    }
    return encoded;
  }

  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    NamedTensors sums;
    if (options_.contrastive_weight > 0)
      sums.set("contrastive", contrastive_sum(encoded, part) * options_.contrastive_weight);
    if (classes_.are_learned) {
      const bool is_weighted = part.tensors().contains("class_scale");
      at::Tensor sum =
          cross_entropy_sum(encoded.at("logits"), part["label"], options_.label_smoothing,
                            is_weighted ? classes_.weights : at::Tensor());
      if (is_weighted) sum = sum * part["class_scale"][0];
      sums.set("class", sum * options_.class_weight);
    }
    return sums;
  }

  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    NamedTensors sums;
    if (classes_.are_learned)
      sums.set("accuracy", correct_count(encoded.at("logits"), part["label"]));
    sums.set("recall_at_1", recalled_count(encoded, part));
    if (encoded.contains("class_embeddings")) {
      const at::Tensor images = encoded.at("image_embeddings");
      const at::Tensor named =
          nearest(images, encoded.at("class_embeddings"), contrastive_tile(images));
      sums.set("zero_shot_accuracy", named.eq(part["label"]).sum());
    }
    return sums;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> lines;
    if (options_.compared > 0) {
      lines.push_back("negatives: micro_batch: each image is compared only with the " +
                      std::to_string(options_.compared - 1) +
                      " others in its micro-batch, so this is not the loss of the whole batch");
    }
    if (options_.compared == 0 && options_.declared_parts > 1) {
      lines.push_back(
          "each image is compared with all others in the batch, not only with the others in its "
          "micro-batch: this is the loss of the whole batch");
    }
    if (options_.balances_samples && classes_.weights.defined())
      lines.push_back(balanced_twice("loss.balance_classes"));
    if (of_training_.cut_captions() > 0) {
      lines.push_back(std::to_string(of_training_.cut_captions()) +
                      " captions are longer than the text tower's context and are truncated");
    }
    return lines;
  }

  void constrain(torch::nn::Module& network) const override { model_.constrain(network); }

 private:
  /// Pairs that are compared with each other: a whole batch or one of its groups, regardless of how
  /// the batch is split for computation.
  struct Compared {
    std::int64_t begin, end;   // indices within the part
    at::Tensor images, texts;  // (n, width): row i of both is a pair
    at::Tensor equal;  // (n): equal captions have the same index, less than the number of texts in
                       // the part
  };

  /// Sums `measure` over the groups of a part.
  template <typename Measure>
  at::Tensor sum_over_groups(const NamedTensors& encoded, const Batch& part,
                             const Measure& measure) const {
    const at::Tensor images = encoded.at("image_embeddings"), texts = encoded.at("text_embeddings");
    const at::Tensor rows = part["caption_row"], first = rows[0];
    const std::int64_t compared = options_.compared > 0 ? options_.compared : part.units();
    at::Tensor sum;
    for (std::int64_t begin = 0; begin < part.units(); begin += compared) {
      const std::int64_t end = std::min(begin + compared, part.units());
      const auto of_group = [&](const at::Tensor& tensor) { return tensor.slice(0, begin, end); };
      const at::Tensor here = measure(Compared{begin, end, of_group(images),
                                               texts.index_select(0, of_group(rows) - first),
                                               of_group(part["equal_caption"]) - first});
      sum = sum.defined() ? sum + here : here;
    }
    return sum;
  }

  PairGroups right_of(const Compared& pairs, const Batch& part, std::int64_t texts) const {
    switch (options_.right) {
      case RightCaptions::kOwn:
        return {};
      case RightCaptions::kEqual:
        return {pairs.equal, texts};
      case RightCaptions::kOfClass:
        return {part["label"].slice(0, pairs.begin, pairs.end), classes_.count};
    }
    return {};
  }

  static at::Tensor logit_bias_of(const NamedTensors& encoded) {
    if (encoded.contains("logit_bias")) return encoded.at("logit_bias");
    throw StageError(ErrorCode::kOptionConflict,
                     "loss.function: sigmoid adds a bias to similarities, but the model has none")
        .at("/loss/function")
        .with_help("set model.logit_bias: -10, or loss.function: softmax");
  }

  at::Tensor contrastive_sum(const NamedTensors& encoded, const Batch& part) const {
    const at::Tensor scale = encoded.at("logit_scale");
    const std::int64_t texts = encoded.at("text_embeddings").size(0);
    const std::int64_t tile = contrastive_tile(encoded.at("image_embeddings"));
    return sum_over_groups(encoded, part, [&](const Compared& pairs) {
      const PairGroups right = right_of(pairs, part, texts);
      const at::Tensor mean =
          options_.is_sigmoid
              ? sigmoid_loss(pairs.images, pairs.texts, scale, logit_bias_of(encoded), right, tile)
              : contrastive_loss(pairs.images, pairs.texts, scale, right, tile);
      return mean * static_cast<double>(pairs.end - pairs.begin);
    });
  }

  /// Returns the number of images for which the nearest caption, among those they are compared
  /// with, equals their own.
  at::Tensor recalled_count(const NamedTensors& encoded, const Batch& part) const {
    const torch::NoGradGuard no_graph;
    return sum_over_groups(encoded, part, [](const Compared& pairs) {
      const at::Tensor found = nearest(pairs.images, pairs.texts, contrastive_tile(pairs.images));
      return pairs.equal.index_select(0, found).eq(pairs.equal).sum();
    });
  }

  const Model& model_;
  const ContrastiveOptions options_;
  const CaptionRows of_training_;
  const std::optional<CaptionRows> of_validation_;  // nullopt: no validation data
  const Classes classes_;
};

ContrastiveOptions read_contrastive_options(runner::ConfigReader& reader) {
  ContrastiveOptions options;
  runner::ConfigReader& loss = reader.section("loss");
  loss.read("contrastive_weight", options.contrastive_weight);
  loss.read("class_weight", options.class_weight);
  options.right = runner::choice<RightCaptions>(loss, "targets",
                                                {{"diagonal", RightCaptions::kOwn},
                                                 {"same_caption", RightCaptions::kEqual},
                                                 {"same_class", RightCaptions::kOfClass}});
  options.is_sigmoid =
      runner::choice<bool>(loss, "function", {{"softmax", false}, {"sigmoid", true}});
  const bool compares_parts =
      runner::choice<bool>(loss, "negatives", {{"batch", false}, {"micro_batch", true}});
  loss.read("balance_classes", options.balances_classes);
  loss.read("label_smoothing", options.label_smoothing);
  if (options.contrastive_weight == 0) {
    loss.fail("contrastive_weight", ErrorCode::kOptionConflict, "the contrastive loss has weight 0",
              "set it above 0, or train a classifier with train.supervised");
  }
  std::string monitor;
  reader.read("monitor", monitor);
  options.asks_for_accuracy = monitor == "accuracy";
  options.asks_for_classes = monitor == "zero_shot_accuracy";
  options.balances_samples =
      runner::choice<bool>(reader, "sampling", {{"as_is", false}, {"balanced", true}});
  reader.read("frozen_epochs", options.frozen_epochs);
  reader.read("trim_captions", options.captions.trims);
  reader.read("encode_captions_once", options.captions.encodes_once);
  std::int64_t batch_size = 0, parts = 1;
  reader.read("batch_size", batch_size);
  reader.read("gradient_accumulation_steps", parts);
  if (compares_parts && parts == 1) {
    loss.fail("negatives", ErrorCode::kOptionConflict,
              "negatives: micro_batch compares samples within micro-batches, but "
              "gradient_accumulation_steps is 1, so a batch has only one",
              "set train.gradient_accumulation_steps above 1 and batch_size to the size of a "
              "micro-batch, or set negatives: batch");
  }
  options.declared_parts = parts;
  if (compares_parts) options.compared = options.captions.within = batch_size;
  return options;
}

/// Returns weights for the class head's loss, based on class frequency.
at::Tensor balanced_class_weights(const Dataset& train) {
  try {
    return class_weights_of(BalancedWeights{}, train);
  } catch (const StageError& error) {
    std::string message = error.what();
    if (const std::size_t at = message.find("class_weights: balanced"); at != message.npos)
      message.replace(at, std::string_view("class_weights: balanced").size(), "balance_classes");
    throw StageError(error.code, message)
        .at("/loss/balance_classes")
        .with_help("add training images of that class, or set loss.balance_classes: false");
  }
}

Classes classes_of(const ImageTextModel& texts, const ContrastiveOptions& options,
                   const TrainingData& data) {
  Classes classes{.count = static_cast<std::int64_t>(data.train->describe().classes.size()),
                  .are_learned = texts.has_class_head()};
  if (classes.are_learned && options.class_weight == 0) {
    throw StageError(ErrorCode::kOptionConflict,
                     "class_weight is 0, so the model's class head would learn nothing")
        .at("/loss/class_weight")
        .with_help("set model.class_head: none, or loss.class_weight above 0");
  }
  if (options.asks_for_classes) {
    const DatasetDescription described = data.train->describe();
    std::vector<std::string> captions;
    for (const std::string& name : words_of(described))
      captions.push_back(class_text("a photo of a {name}.", name));
    classes.captions = texts.tokenized(captions);
  }
  if (options.frozen_epochs > 0 && !classes.are_learned) {
    throw StageError(ErrorCode::kOptionConflict,
                     "frozen_epochs trains the class head alone, but the model has none")
        .at("/frozen_epochs")
        .with_help("set model.class_head: linear, or frozen_epochs: 0");
  }
  if (options.asks_for_accuracy && !classes.are_learned) {
    throw StageError(ErrorCode::kOptionConflict,
                     "monitor: accuracy needs a class head, but the model has none")
        .at("/monitor")
        .with_help("set monitor: recall_at_1, or model.class_head: linear");
  }
  if (classes.are_learned || options.asks_for_classes || options.right == RightCaptions::kOfClass) {
    check_one_class_each(*data.train);
    check_same_classes(*data.train, data.validation.get());
  }
  if (classes.are_learned && options.balances_classes)
    classes.weights = balanced_class_weights(*data.train);
  return classes;
}

CaptionRows captions_of(const ImageTextModel& model, const Dataset& data, const char* which,
                        const CaptionRowsOptions& options) {
  const std::vector<std::string> captions = data.describe().captions;
  if (captions.empty()) {
    throw StageError(ErrorCode::kOptionConflict,
                     std::string("the ") + which + " data has no captions")
        .with_help(
            "set the data stage's caption option, for example 'data.caption=\"a photo of a "
            "{name}\"'");
  }
  return CaptionRows(model.tokenized(captions), options);
}

std::unique_ptr<TrainingStep> make_contrastive_step(const ContrastiveOptions& options,
                                                    const Model& model, const TrainingData& data) {
  const auto* const texts = dynamic_cast<const ImageTextModel*>(&model);
  if (!texts) {
    throw StageError(ErrorCode::kOptionConflict, "the model does not take captions as input")
        .with_help("use a model.clip model, or train this one with train.supervised");
  }
  const Classes classes = classes_of(*texts, options, data);
  CaptionRows of_training = captions_of(*texts, *data.train, "training", options.captions);
  std::optional<CaptionRows> of_validation;
  if (data.validation)
    of_validation.emplace(captions_of(*texts, *data.validation, "validation", options.captions));
  return std::make_unique<ContrastiveStep>(model, options, std::move(of_training),
                                           std::move(of_validation), classes);
}

runner::Result<std::unique_ptr<runner::Stage>> create_contrastive(runner::ConfigReader& reader) {
  const ContrastiveOptions options = read_contrastive_options(reader);
  TrainingKind kind{
      .make_step = [options](
                       const Model& model, const TrainingData& data,
                       const MemoryPolicy&) { return make_contrastive_step(options, model, data); },
      .scores = {"accuracy", "zero_shot_accuracy", "recall_at_1"},
      .parts = {{"image", {"vision_model", "visual_projection"}, /*is_tower=*/true},
                {"text", {"text_model", "text_projection"}, /*is_tower=*/true},
                {"logit_scale", {"logit_scale", "logit_bias"}},
                {"class_head", {"class_head"}}},
      .trained_first = {options.frozen_epochs, "class_head"}};
  if (options.balances_samples) kind.draw = draw_balanced;
  return make_training_stage(reader, std::move(kind));
}

}  // namespace

extern const runner::StageKind kTrainContrastive = {.name = "train.contrastive",
                                                    .create = create_contrastive};

}  // namespace stages
