#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/class_captions.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/example_images.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"
#include "stages/evaluate/text_classes.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct ZeroShotConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t examples = 0;  // number of images in each group
  ReportOptions reported;
  std::vector<std::string> templates;
  bool measures_head = true, measures_within_class = false;
};

/// Returns a bool tensor (classes, captions) that marks the captions each class has over all its
/// samples, tested or not.
at::Tensor captions_of_classes(const Dataset& test) {
  const DatasetDescription data = test.describe();
  const std::vector<std::vector<std::int64_t>> captions = test.captions_of_classes();
  const at::Tensor has = torch::zeros({static_cast<std::int64_t>(data.classes.size()),
                                       static_cast<std::int64_t>(data.captions.size())},
                                      at::kBool);
  auto known = has.accessor<bool, 2>();
  for (std::size_t label = 0; label < captions.size(); ++label) {
    for (const std::int64_t caption : captions[label])
      known[static_cast<std::int64_t>(label)][caption] = true;
  }
  return has;
}

/// Returns an (n, 1) tensor: for each image, how many candidates rank ahead of its own caption. A
/// caption ranks ahead if its product is larger, or if its product is equal and its index lower.
/// `are_candidates` is (n, captions) bool.
at::Tensor ranks_of_own(const at::Tensor& products, const at::Tensor& are_candidates,
                        const at::Tensor& own) {
  const at::Tensor place = own.unsqueeze(1), of_own = products.gather(1, place);
  const at::Tensor is_lower = torch::arange(products.size(1), place.options()).lt(place);
  // Bitwise, because the logical operators have no Meta kernel.
  const at::Tensor precedes =
      products.gt(of_own).bitwise_or(products.eq(of_own).bitwise_and(is_lower));
  return precedes.bitwise_and(are_candidates).sum(1, /*keepdim=*/true);
}

/// Returns a row per image: a logit per class from the templates; the logits of the class head, if
/// measured; and the number of captions of its class that rank ahead of its own, if measured. Texts
/// are embedded once, when the first images arrive.
class ImageVerdict {
 public:
  ImageVerdict(const ZeroShotConfig& config, const Dataset& test, const Checkpoint& checkpoint)
      : model_(*checkpoint.model),
        classes_(checkpoint, words_of(test.describe()), config.templates) {
    has_head_ = config.measures_head && text_model_of(checkpoint).has_class_head();
    if (!config.measures_within_class) return;
    own_captions_.emplace(checkpoint, test.describe().captions);
    captions_of_classes_ = captions_of_classes(test);
  }

  at::Tensor operator()(torch::nn::Module& network, const NamedTensors& inputs) {
    const at::Tensor& pixels = inputs.at("image");
    if (!class_embeddings_.defined()) embed_texts(network, pixels);
    const NamedTensors seen = model_.forward(network, {{"image", pixels}});
    const at::Tensor images = seen.at("image_embeddings"), scale = seen.at("logit_scale");
    std::vector<at::Tensor> columns = {text_logits(images, class_embeddings_, scale)};
    const at::ScalarType type = columns.front().scalar_type();
    if (has_head_) columns.push_back(seen.at("logits").to(type));
    if (own_captions_) {
      const at::Tensor are_of_class =
          captions_of_classes_.to(pixels.device()).index_select(0, inputs.at("label"));
      const at::Tensor products = text_logits(images, caption_embeddings_, scale);
      columns.push_back(ranks_of_own(products, are_of_class, inputs.at("caption")).to(type));
    }
    return torch::cat(columns, 1);
  }

  bool has_head() const { return has_head_; }

 private:
  void embed_texts(torch::nn::Module& network, const at::Tensor& pixels) {
    const std::int64_t at_once = std::max<std::int64_t>(1, pixels.size(0));
    const at::Tensor classes = classes_.embeddings(network, pixels.device(), at_once);
    if (own_captions_)
      caption_embeddings_ = own_captions_->embeddings(network, pixels.device(), at_once);
    class_embeddings_ = classes;
  }

  const Model& model_;
  const TextClasses classes_;
  std::optional<TextRows> own_captions_;
  bool has_head_ = false;
  at::Tensor captions_of_classes_;
  at::Tensor class_embeddings_, caption_embeddings_;
};

class ZeroShotEvaluation final : public runner::Stage {
 public:
  explicit ZeroShotEvaluation(ZeroShotConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Evaluated evaluated = prepare(inputs);
    check_trained_images(evaluated.predictor->test(), config_.allow_trained, context);
    const auto [outputs, batch_size] = evaluated.predictor->plan(context);
    config_.predictor.batch_size = batch_size;
    const auto predictions = std::make_shared<Predictions>();
    const std::int64_t classes =
        static_cast<std::int64_t>(evaluated.predictor->test().describe().classes.size());
    predictions->scores =
        torch::empty({outputs.size(0), classes}, outputs.options().dtype(at::kFloat));
    predictions->labels = torch::empty({outputs.size(0)}, outputs.options().dtype(at::kLong));
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}, {"predictions", predictions}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Evaluated evaluated = prepare(inputs);
    const Predictor& predictor = *evaluated.predictor;
    check_trained_images(predictor.test(), config_.allow_trained, context);
    const Checkpoint& checkpoint = predictor.checkpoint();
    const ScopedMemoryBudget budget = predictor.hold_budget(context);
    const std::vector<std::string> classes = predictor.test().describe().classes;
    ClassifiedSamples samples = predictor.classify(context);
    const at::Tensor outputs = samples.logits;
    samples.logits = outputs.narrow(1, 0, static_cast<std::int64_t>(classes.size())).contiguous();
    const ClassificationMetrics metrics =
        classification_metrics(samples.logits, samples.labels, config_.reported.top_k);
    Classified classified{samples, metrics, classes, checkpoint};
    const at::Tensor head =
        evaluated.verdict->has_head()
            ? outputs.narrow(1, static_cast<std::int64_t>(classes.size()),
                             static_cast<std::int64_t>(checkpoint.classes.size()))
            : at::Tensor();
    write_example_images(samples, classes, predictor.test(), config_.examples,
                         context.node().folder);
    std::vector<std::string> lines;
    if (head.defined()) lines.push_back(add_head(head, classes, classified));
    if (config_.measures_within_class)
      lines.push_back(add_within_class(outputs, head, classes, classified));
    runner::Outputs result = report_classification(classified, config_.reported, context);
    for (const std::string& line : lines) context.say(line);
    return result;
  }

 private:
  struct Evaluated {
    std::shared_ptr<ImageVerdict> verdict;
    std::unique_ptr<Predictor> predictor;
  };

  Evaluated prepare(const runner::Inputs& inputs) const {
    const auto test = inputs.get<Dataset>("test");
    const DatasetDescription data = test->describe();
    if (data.classes.empty()) {
      throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no classes")
          .with_help("evaluation compares predictions with labels: use a labeled dataset");
    }
    if (config_.measures_within_class && test->captions_of_classes().empty()) {
      throw StageError(ErrorCode::kOptionConflict,
                       "within_class compares captions, but the test set has none")
          .at("/within_class")
          .with_help("set the data stage's caption option, or within_class: false");
    }
    const auto checkpoint = inputs.get<Checkpoint>("checkpoint");
    text_model_of(*checkpoint);
    Evaluated result;
    result.verdict = std::make_shared<ImageVerdict>(config_, *test, *checkpoint);
    Predictor::Options options = config_.predictor;
    options.outputs = [verdict = result.verdict](torch::nn::Module& network,
                                                 const NamedTensors& rows) {
      return (*verdict)(network, rows);
    };
    result.predictor = std::make_unique<Predictor>(inputs, std::move(options));
    return result;
  }

  /// Adds the class head's accuracies if it knows the tested classes.
  std::string add_head(const at::Tensor& logits, const std::vector<std::string>& tested,
                       Classified& classified) const {
    std::optional<TestedClasses> classes;
    try {
      classes.emplace(tested, classified.checkpoint.classes);
    } catch (const StageError&) {
      return "the class head is not measured: it was trained on other classes";
    }
    const at::Tensor labels = classes->trained_labels(classified.samples.labels);
    const ClassificationMetrics metrics = classification_metrics(
        logits.contiguous(), labels, config_.reported.top_k, classes->present());
    classified.besides["class_head"] = to_json(metrics, classified.checkpoint.classes);
    classified.values.emplace_back("class_head_top1", metrics.top1);
    for (const auto& [k, share] : metrics.top_k)
      classified.values.emplace_back("class_head_top" + std::to_string(k), share);
    return "class head: " + headline(metrics);
  }

  /// Adds the share of images for which their own caption is the nearest among the captions of
  /// their class. Only images that the class head or, if there is none, the templates classify
  /// correctly are counted.
  std::string add_within_class(const at::Tensor& outputs, const at::Tensor& head,
                               const std::vector<std::string>& tested,
                               Classified& classified) const {
    const at::Tensor labels = classified.samples.labels;
    at::Tensor is_right = classified.samples.logits.argmax(1).eq(labels);
    if (head.defined() && tested == classified.checkpoint.classes)
      is_right = head.argmax(1).eq(labels);
    const at::Tensor before = outputs.select(1, outputs.size(1) - 1);
    const std::int64_t right = is_right.sum().item<std::int64_t>();
    const auto found = [&](std::int64_t k) {
      return before.lt(static_cast<double>(k)).logical_and(is_right).sum().item<std::int64_t>();
    };
    const auto share = [&](std::int64_t count) {
      return right > 0 ? static_cast<double>(count) / static_cast<double>(right) : 0;
    };
    nlohmann::ordered_json json = {{"accuracy", share(found(1))}};
    classified.values.emplace_back("within_class", share(found(1)));
    std::string line =
        "within its class: the image's own caption is the nearest for " + std::to_string(found(1));
    for (const std::int64_t k : config_.reported.top_k) {
      if (k == 1) continue;
      json["top" + std::to_string(k)] = share(found(k));
      classified.values.emplace_back("within_class_top" + std::to_string(k), share(found(k)));
      line += ", among the " + std::to_string(k) + " nearest for " + std::to_string(found(k));
    }
    json["images"] = right;
    classified.besides["within_class"] = std::move(json);
    return line + " of " + std::to_string(right) + " correctly classified images";
  }

  ZeroShotConfig config_;  // plan() reduces the batch size to what fits in memory
};

runner::Result<std::unique_ptr<runner::Stage>> create_zero_shot(runner::ConfigReader& reader) {
  ZeroShotConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  config.predictor.pointer = reader.pointer();
  config.reported = read_report_options(reader);
  config.templates = read_templates(reader);
  reader.read("examples", config.examples);
  reader.read("class_head", config.measures_head);
  reader.read("within_class", config.measures_within_class);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<ZeroShotEvaluation>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateZeroShot = {"evaluate.zero_shot", create_zero_shot};

}  // namespace stages
