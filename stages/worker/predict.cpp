#include "stages/worker/predict.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "stages/artifact/class_scores.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/label_ranking.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/targets.h"
#include "stages/data/images_to_predict.h"
#include "stages/evaluate/multi_label_metrics.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/text_classes.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/plan_forward.h"
#include "stages/python/python_host.h"
#include "stages/text/class_text.h"
#include "stages/worker/activation_folder.h"
#include "stages/worker/feature_map_picture.h"
#include "stages/worker/image_request.h"
#include "stages/worker/network_of_run.h"
#include "stages/worker/support_examples.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kNamedUnlike = 10;

/// The possible predictions for an image, if they are not the classes seen in training.
struct AskedClasses {
  std::optional<SupportExamples> examples = {};  ///< set for a few-shot model
  std::shared_ptr<TextLabels> texts = {};        ///< set for CLIP, unless its class head predicts
  std::vector<std::string> names = {};           ///< empty for the classes seen in training
  /// The minimum probability for predicting each label, if an image can have any number of them;
  /// otherwise empty.
  std::vector<double> thresholds = {};
  /// How the logits of the classes seen in training become probabilities and a class.
  FittedDecision decision = {};
  bool are_numbers = false;  ///< the outputs are not class scores and are returned unchanged
  bool are_targets = false;  ///< the network predicts a number for each of its targets
};

/// Returns the logits of the rows of `inputs`, which include any examples.
at::Tensor asked_logits(const Checkpoint& checkpoint, const AskedClasses& asked, TestTimeFlip flip,
                        torch::nn::Module& network, const NamedTensors& inputs) {
  const at::Tensor logits = flipped_mean(inputs, flip, [&](const NamedTensors& seen) {
    if (asked.texts) return asked.texts->logits(network, seen.at("image"));
    const NamedTensors outputs = checkpoint.model->forward(network, seen);
    if (outputs.contains("logits")) return outputs.at("logits");
    throw StageError(ErrorCode::kStageFailed,
                     "the network returns no 'logits', which a prediction needs")
        .at(checkpoint.model_stage)
        .with_help("return the logits as 'logits', along with any other outputs");
  });
  if (asked.are_numbers) return logits.reshape({inputs.at("image").size(0), -1});
  const at::Tensor rows = class_logits(logits.flatten(0, -2), checkpoint.ordinal);
  // A single logit separates two classes. It is for the second class, and the first has logit 0.
  return checkpoint.pair_of > 0 ? torch::cat({torch::zeros_like(rows), rows}, 1) : rows;
}

/// Predicts the images and emits the predictions.
class Prediction {
 public:
  Prediction(const Checkpoint& checkpoint, std::shared_ptr<const ImagesToPredict> pictures,
             AskedClasses asked, std::int64_t top, TestTimeFlip flip, const std::string& explain,
             const RequestContext& context)
      : checkpoint_(checkpoint),
        pictures_(std::move(pictures)),
        asked_(std::move(asked)),
        top_(top),
        flip_(flip),
        context_(context) {
    if (!explain.empty()) maps_.emplace(explain, transform_of(checkpoint));
  }

  Json run(std::int64_t batch_size, at::Device device) {
    const auto say = [&](std::string_view line) { context_.say(line); };
    if (maps_) check_feature_maps(*checkpoint_.network, checkpoint_);
    const PreparedNetwork network(*checkpoint_.network,
                                  choose_numerics(checkpoint_.numerics, *checkpoint_.network,
                                                  checkpoint_.model_stage, device, say),
                                  device);
    const std::int64_t images = pictures_->describe().size;
    Loader loader(pictures_, SampleOrder::sequential(images), batch_size, /*epoch=*/0);
    const PassProgress progress("predict", images);
    for (;;) {
      if (context_.canceled()) throw runner::Canceled{};
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      const at::Tensor said = logits(network, *batch);
      give(*batch, said);
      if (maps_) draw(network, *batch, said);
      context_.progress(progress.after(next_, next_));
    }
    give_unreadable(images);
    report_unlike();
    Json answer = {{"images", images}, {"failed", failed_}};
    if (asked_.decision.temperature != 1) answer["temperature"] = asked_.decision.temperature;
    if (!maps_) return answer;
    answer["pictures"] = maps_->written();
    if (const std::string reduced = maps_->remark(); !reduced.empty()) say(reduced);
    return answer;
  }

 private:
  at::Tensor logits(const PreparedNetwork& network, const Batch& batch) const {
    const Batch placed =
        network.placed(asked_.examples ? asked_.examples->asked_about(batch) : batch);
    const ScopedInference inference(network);
    return asked_logits(checkpoint_, asked_, flip_, network.module(), placed.tensors()).cpu();
  }

  /// Draws which regions of each image support the predicted class, or raise each predicted number.
  void draw(const PreparedNetwork& network, const Batch& batch, const at::Tensor& logits) {
    for (std::int64_t row = 0; row < batch.units(); ++row) {
      const std::int64_t index = batch.indices[static_cast<std::size_t>(row)];
      const at::Tensor pixels = network.placed(batch.part(row, row + 1)).tensors().at("image");
      const auto add = [&](const std::string& what, const at::Tensor& activation) {
        maps_->write(pictures_->sample_name(index), index, what, activation);
      };
      if (!asked_.are_targets) {
        const std::int64_t label = asked_.decision.predicted(scores_of(logits, row));
        add(name_of(label), activation_of(network.module(), pixels, label));
        continue;
      }
      for (std::int64_t target = 0; target < logits.size(1); ++target)
        add(name_of(target),
            class_activation(network.module(), checkpoint_, pixels, target, /*sign=*/1));
    }
  }

  /// Returns where the network saw the class. In a class pair, and with an ordinal head, an output
  /// is evidence that the class is above another; for the first class, there is only evidence
  /// against that.
  at::Tensor activation_of(torch::nn::Module& network, const at::Tensor& pixels,
                           std::int64_t label) const {
    const bool are_above = checkpoint_.pair_of > 0 || checkpoint_.ordinal != OrdinalHead::kNone;
    const std::int64_t output = are_above ? std::max<std::int64_t>(label - 1, 0) : label;
    return class_activation(network, checkpoint_, pixels, output, are_above && label == 0 ? -1 : 1);
  }

  void give(const Batch& batch, const at::Tensor& logits) {
    for (std::int64_t row = 0; row < batch.units(); ++row) {
      const std::int64_t index = batch.indices[static_cast<std::size_t>(row)];
      give_unreadable(index);
      give(pictures_->sample_name(index), logits, row);
      next_ = index + 1;
    }
  }

  void give(const std::string& file, const at::Tensor& logits, std::int64_t row) const {
    if (!logits[row].isfinite().all().item<bool>()) {
      throw StageError(ErrorCode::kStageFailed,
                       "the network returned a non-finite logit for '" + file + "'")
          .with_help("the weights are damaged, or training diverged: check train/loss");
    }
    if (asked_.are_numbers) {
      Json outputs = Json::array();
      for (std::int64_t i = 0; i < logits.size(1); ++i)
        outputs.push_back(logits[row][i].item<double>());
      return context_.item({{"file", file}, {"outputs", std::move(outputs)}});
    }
    if (asked_.are_targets) return give_values(file, logits, row);
    if (!asked_.thresholds.empty()) return give_labels(file, logits, row);
    const ClassScores scores = scores_of(logits, row);
    Json item = {{"file", file}};
    if (asked_.decision.decides()) item["prediction"] = name_of(asked_.decision.predicted(scores));
    Json classes = Json::array();
    for (const std::int64_t label : scores.best(top_)) {
      classes.push_back({{"class", name_of(label)}, {"probability", scores.probability(label)}});
    }
    item["classes"] = std::move(classes);
    context_.item(item);
  }

  ClassScores scores_of(const at::Tensor& logits, std::int64_t row) const {
    if (asked_.decision.temperature == 1) return class_scores(logits, row);
    return class_scores(logits.slice(0, row, row + 1).to(at::kDouble) / asked_.decision.temperature,
                        /*row=*/0);
  }

  /// Emits the number predicted for each target.
  void give_values(const std::string& file, const at::Tensor& logits, std::int64_t row) const {
    const at::Tensor numbers = in_target_unit(logits.narrow(0, row, 1), checkpoint_.targets);
    Json values = Json::object();
    for (std::int64_t target = 0; target < numbers.size(1); ++target)
      values[name_of(target)] = numbers[0][target].item<double>();
    context_.item({{"file", file}, {"values", std::move(values)}});
  }

  /// Emits the labels for an image, and the probabilities of the most likely ones.
  void give_labels(const std::string& file, const at::Tensor& logits, std::int64_t row) const {
    const ClassScores scores = class_scores(logits, row);
    const at::Tensor own = logits[row].to(at::kDouble);
    Json labels = Json::array(), classes = Json::array();
    for (std::int64_t label = 0; label < scores.classes(); ++label) {
      const double threshold = asked_.thresholds[static_cast<std::size_t>(label)];
      if (is_predicted(own[label].item<double>(), threshold)) labels.push_back(name_of(label));
    }
    for (const std::int64_t label : scores.best(top_))
      classes.push_back({{"class", name_of(label)},
                         {"probability", label_probability(own[label].item<double>())}});
    context_.item({{"file", file}, {"labels", std::move(labels)}, {"classes", std::move(classes)}});
  }

  /// Reports the unreadable images before image `end`.
  void give_unreadable(std::int64_t end) {
    for (; next_ < end; ++next_) {
      const auto unreadable = pictures_->take_unreadable(next_);
      if (!unreadable) continue;
      ++failed_;
      context_.item({{"file", pictures_->sample_name(next_)},
                     {"code", runner::name(unreadable->code)},
                     {"message", unreadable->message}});
    }
  }

  void report_unlike() const {
    const std::vector<std::string> names = pictures_->unlike();
    if (names.empty()) return;
    context_.say(
        std::to_string(names.size()) +
        (names.size() == 1 ? " image does not look like " : " images do not look like ") +
        std::string(pictures_->subject()->what) +
        ", so their predictions are meaningless: " + runner::listed(names, kNamedUnlike, "'"));
  }

  std::string name_of(std::int64_t label) const {
    const auto index = static_cast<std::size_t>(label);
    const std::vector<std::string>& names =
        asked_.names.empty() ? checkpoint_.classes : asked_.names;
    return index < names.size() ? names[index] : "output " + std::to_string(label);
  }

  const Checkpoint& checkpoint_;
  const std::shared_ptr<const ImagesToPredict> pictures_;
  const AskedClasses asked_;
  const std::int64_t top_;
  const TestTimeFlip flip_;
  const RequestContext& context_;
  std::int64_t next_ = 0;  // the first image that has not been reported yet
  std::int64_t failed_ = 0;
  std::optional<ActivationFolder> maps_;  // nullopt: none are drawn
};

/// Returns how many bytes the prediction needs on a GPU named `device_model`; 0 if unknown.
std::int64_t planned_prediction(const Checkpoint& checkpoint, const ImagesToPredict& pictures,
                                const AskedClasses& classes, std::int64_t batch_size,
                                TestTimeFlip flip, const std::string& device_model) {
  const auto forward = [&](torch::nn::Module& network, const NamedTensors& inputs) {
    const NamedTensors seen =
        classes.examples
            ? classes.examples->asked_about(Batch(inputs, inputs.at("image").size(0))).tensors()
            : inputs;
    return asked_logits(checkpoint, classes, flip, network, seen);
  };
  return planned_bytes(checkpoint, pictures, batch_size, device_model, forward);
}

/// Returns the examples in a folder, which a few-shot model requires; none if the path is empty.
runner::Result<std::optional<SupportExamples>> support_of(const std::string& folder,
                                                          const Checkpoint& checkpoint,
                                                          const ImageDatasetOptions& transform,
                                                          const RequestContext& context) {
  const auto trained = episode_shape({.tensors = checkpoint.inputs});
  const auto refused = [](std::string message, std::string help) {
    return runner::Diagnostic{ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
  };
  if (trained && folder.empty()) {
    return refused("the network needs examples of each class, but there are none",
                   "give a folder with one folder of images per class: --support FOLDER");
  }
  if (!trained && !folder.empty())
    return refused("--support is for few-shot models, but this network has its own classes",
                   "leave out --support");
  if (!trained) return std::optional<SupportExamples>();
  auto examples = read_support(folder, *trained, transform, context.say);
  if (!examples) return examples.errors();
  return std::optional(*std::move(examples));
}

/// Returns the texts that a CLIP model compares images with; null if its class head predicts, or
/// for other models.
runner::Result<std::shared_ptr<TextLabels>> texts_of(const std::vector<std::string>& labels,
                                                     const Checkpoint& checkpoint) {
  const auto* const model = dynamic_cast<const ImageTextModel*>(checkpoint.model.get());
  if (!model) {
    if (labels.empty()) return std::shared_ptr<TextLabels>();
    return runner::Diagnostic{ErrorCode::kUsage,
                              {},
                              "",
                              "--labels is for models that read text, but this one does not",
                              "leave out --labels"};
  }
  if (labels.empty() && model->has_class_head()) return std::shared_ptr<TextLabels>();
  std::vector<std::string> texts = labels;
  for (const std::string& name :
       labels.empty() ? checkpoint.class_words : std::vector<std::string>())
    texts.push_back(class_text("a photo of a {name}.", name));
  for (auto label = labels.begin(); label != labels.end(); ++label) {
    if (std::find(labels.begin(), label, *label) == label) continue;
    return runner::Diagnostic{ErrorCode::kUsage,
                              {},
                              "",
                              "--labels has '" + runner::printable(*label) + "' twice",
                              "list each text once"};
  }
  try {
    return std::make_shared<TextLabels>(checkpoint, texts);
  } catch (const StageError& error) {
    if (labels.empty() || error.code != ErrorCode::kBadAnnotations) throw;
    return runner::Diagnostic{ErrorCode::kUsage,
                              {},
                              "",
                              std::string("--labels: ") + error.what(),
                              "use texts that the model can read"};
  }
}

/// Returns the thresholds of a network that predicts any number of labels; empty for others.
std::vector<double> asked_thresholds(const Checkpoint& checkpoint, const RequestContext& context) {
  const auto labels = std::ssize(checkpoint.classes);
  if (!has_label_sets(checkpoint.inputs, labels)) return {};
  std::vector<double> chosen = thresholds_of(checkpoint.validation, labels);
  if (!chosen.empty()) return chosen;
  context.say(
      "labels are predicted at a probability of 0.5 or more: these weights have no thresholds from "
      "validation data");
  return std::vector<double>(static_cast<std::size_t>(labels), kUsualThreshold);
}

/// Returns the decision that was fitted for the classes seen in training, and reports it.
FittedDecision asked_decision(const Checkpoint& checkpoint, const RequestContext& context) {
  FittedDecision decision = decision_of(checkpoint);
  constexpr int kDigits = 4;
  if (decision.temperature != 1) {
    context.say("probabilities are calibrated with the temperature " +
                runner::decimal(decision.temperature, kDigits) +
                ", which was fitted on the validation data");
  }
  if (decision.is_fitted()) {
    context.say(std::string("the column 'prediction' follows the ") +
                (decision.threshold ? "threshold" : "cut points") +
                " chosen on the validation data");
  } else if (decision.ordinal != OrdinalHead::kNone) {
    context.say(
        "the column 'prediction' is the first class at which the probabilities add up to half or "
        "more");
  }
  return decision;
}

runner::Result<AskedClasses> asked_classes(const Json& request, const Checkpoint& checkpoint,
                                           const ImageDatasetOptions& transform,
                                           const RequestContext& context) {
  const runner::JsonFields<Json> fields(request, "the request");
  auto examples = support_of(request.contains("support") ? fields.text("support") : "", checkpoint,
                             transform, context);
  if (!examples) return examples.errors();
  const std::vector<std::string> labels =
      request.contains("labels") ? fields.texts("labels") : std::vector<std::string>();
  auto texts = texts_of(labels, checkpoint);
  if (!texts) return texts.errors();
  AskedClasses asked{*std::move(examples), *std::move(texts), labels};
  if (asked.examples) asked.names = asked.examples->classes();
  asked.are_numbers =
      !asked.examples && !asked.texts && request.contains("numbers") && fields.flag("numbers");
  asked.are_targets = has_targets(checkpoint.inputs, std::ssize(checkpoint.classes));
  if (!asked.are_numbers && !asked.examples && !asked.texts && !request.contains("plan_for")) {
    asked.thresholds = asked_thresholds(checkpoint, context);
    if (asked.thresholds.empty() && !asked.are_targets)
      asked.decision = asked_decision(checkpoint, context);
  }
  if (asked.are_numbers && request.contains("explain"))
    return runner::Diagnostic{ErrorCode::kUsage,
                              {},
                              "",
                              "--explain shows where a class was seen, but this network returns "
                              "numbers, not classes",
                              "leave out --explain"};
  return asked;
}

}  // namespace

runner::Result<Json> answer_predict(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(
      request, {"graph", "node", "checkpoints", "model", "paths", "top", "batch_size",
                "skip_corrupt", "flip", "plan_for", "support", "labels", "explain", "numbers"});
  const std::int64_t top = fields.integer("top"), batch_size = fields.integer("batch_size");
  const bool skip = fields.flag("skip_corrupt");
  if (top < 1 || batch_size < 1)
    throw std::runtime_error("predict: top and batch_size must be at least 1");
  const std::string flip_word = request.contains("flip") ? fields.text("flip") : "none";
  const auto* const flip =
      std::ranges::find(kTestTimeFlips, flip_word, [](const auto& item) { return item.first; });
  if (flip == kTestTimeFlips.end()) throw std::runtime_error("predict: an unknown flip");

  auto opened = open_image_request(request, context);
  if (!opened) return opened.errors();
  if (!opened->checkpoint) return Json{{"needed", 0}};
  const Checkpoint& checkpoint = *opened->checkpoint;
  auto asked = asked_classes(request, checkpoint, opened->transform, context);
  if (!asked) return asked.errors();
  auto pictures =
      std::make_shared<const ImagesToPredict>(std::move(opened->files), opened->transform, skip);
  if (request.contains("plan_for"))
    return Json{{"needed", planned_prediction(checkpoint, *pictures, *asked, batch_size,
                                              flip->second, fields.text("plan_for"))}};
  const std::string explain = request.contains("explain") ? fields.text("explain") : "";
  Json answer = Prediction(checkpoint, std::move(pictures), *std::move(asked), top, flip->second,
                           explain, context)
                    .run(batch_size, opened->device);
  if (!checkpoint.weights.empty()) answer["weights"] = checkpoint.weights;
  return answer;
}

}  // namespace stages
