#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/decimal.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/predictor.h"
#include "stages/contrastive/retrieval_ranks.h"
#include "stages/evaluate/text_classes.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct RetrievalConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::vector<std::int64_t> recall_at;  // ascending
  bool finds_equal_captions = true;
  std::int64_t tile = 1;
};

/// What is kept of each pair: the image's embedding, then that of its caption. Captions are embedded once, when the
/// first images are seen.
class PairEmbeddings {
 public:
  PairEmbeddings(const Checkpoint& checkpoint, const std::vector<std::string>& captions)
      : model_(*checkpoint.model), texts_(checkpoint, captions) {}

  at::Tensor operator()(torch::nn::Module& network, const NamedTensors& inputs) {
    const at::Tensor& pixels = inputs.at("image");
    if (!captions_.defined())
      captions_ = texts_.embeddings(network, pixels.device(), std::max<std::int64_t>(1, pixels.size(0)));
    const at::Tensor images = model_.forward(network, {{"image", pixels}}).at("image_embeddings");
    return torch::cat({images, captions_.index_select(0, inputs.at("caption"))}, 1);
  }

 private:
  const Model& model_;
  const TextRows texts_;
  at::Tensor captions_;
};

class RetrievalEvaluation final : public runner::Stage {
 public:
  explicit RetrievalEvaluation(RetrievalConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs, runner::PlanContext& context) override {
    const Predictor predictor = this->predictor(inputs);
    check_trained_images(predictor.test(), config_.allow_trained, context);
    config_.predictor.batch_size = predictor.plan(context).batch_size;
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor predictor = this->predictor(inputs);
    check_trained_images(predictor.test(), config_.allow_trained, context);
    const ScopedMemoryBudget budget = predictor.hold_budget(context);
    const ClassifiedSamples pairs = predictor.classify(context);
    const std::vector<at::Tensor> halves = pairs.logits.chunk(2, 1);
    const auto step = [&] {
      if (context.cancelled()) throw runner::Cancelled{};
    };
    const Texts texts = config_.finds_equal_captions ? distinct(captions_of(pairs, predictor.test()), halves[1])
                                                     : Texts{halves[1].contiguous(), {}};
    const RetrievalRanks ranks =
        retrieval_ranks(halves[0].contiguous(), texts.embeddings, texts.of, config_.tile, step);
    const RetrievalMetrics of_images = retrieval_metrics(ranks.image_to_text, config_.recall_at),
                           of_texts = retrieval_metrics(ranks.text_to_image, config_.recall_at);
    const Checkpoint& checkpoint = predictor.checkpoint();
    const auto pairs_count = static_cast<std::int64_t>(ranks.image_to_text.size());
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch},
                                   {"step", checkpoint.step},
                                   {"pairs", pairs_count},
                                   {"texts", texts.embeddings.size(0)},
                                   {"hits", config_.finds_equal_captions ? "same_caption" : "paired"},
                                   {"image_to_text", to_json(of_images)},
                                   {"text_to_image", to_json(of_texts)},
                                   {"skipped", pairs.skipped},
                                   {"smoke", context.node().smoke}};
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(), json.dump(2) + "\n");
    const auto numbers = std::make_shared<Metrics>();
    add(of_images, "image_to_text", numbers->values);
    add(of_texts, "text_to_image", numbers->values);
    for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, checkpoint.step);
    context.say("captions: " + headline(of_images) + "; images: " + headline(of_texts) + "; " +
                std::to_string(pairs_count) + " pairs, " +
                (config_.finds_equal_captions
                     ? "any with the same caption is right: " + std::to_string(texts.embeddings.size(0)) +
                           " captions, each of which counts once"
                     : "only the own one is right"));
    return {{"metrics", numbers}};
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    const DatasetDescription test = inputs.get<Dataset>("test")->describe();
    if (test.captions.empty()) {
      throw StageError(ErrorCode::kOptionConflict, "the test set has no captions")
          .with_help("set the data's option caption, such as 'data.caption=\"a photo of a {name}\"'");
    }
    const auto checkpoint = inputs.get<Checkpoint>("checkpoint");
    text_model_of(*checkpoint);
    const auto embeddings = std::make_shared<PairEmbeddings>(*checkpoint, test.captions);
    Predictor::Options options = config_.predictor;
    options.outputs = [embeddings](torch::nn::Module& network, const NamedTensors& rows) {
      return (*embeddings)(network, rows);
    };
    return Predictor(inputs, std::move(options));
  }

  /// What images are compared with.
  struct Texts {
    at::Tensor embeddings;         // (m, width)
    std::vector<std::int64_t> of;  // of each image, its own; empty: as many as images, one for each
  };

  /// Of the captions of pairs, whose embeddings are given, each distinct one once, in the order in which they occur.
  static Texts distinct(const std::vector<std::int64_t>& captions, const at::Tensor& embeddings) {
    Texts texts;
    std::map<std::int64_t, std::int64_t> number_of;
    std::vector<std::int64_t> firsts;
    for (std::size_t pair = 0; pair < captions.size(); ++pair) {
      const auto [entry, is_new] = number_of.try_emplace(captions[pair], std::ssize(firsts));
      if (is_new) firsts.push_back(static_cast<std::int64_t>(pair));
      texts.of.push_back(entry->second);
    }
    texts.embeddings = embeddings.index_select(0, torch::tensor(firsts));
    return texts;
  }

  /// Samples that were skipped have no name among the pairs.
  static std::vector<std::int64_t> captions_of(const ClassifiedSamples& pairs, const Dataset& test) {
    const std::vector<std::int64_t> all = test.captions();
    std::vector<std::int64_t> result;
    std::int64_t index = 0;
    for (const std::string& name : pairs.names) {
      while (test.sample_name(index) != name) ++index;
      result.push_back(all.at(static_cast<std::size_t>(index++)));
    }
    return result;
  }

  static nlohmann::ordered_json to_json(const RetrievalMetrics& metrics) {
    nlohmann::ordered_json json = {{"mean_rank", metrics.mean_rank}, {"median_rank", metrics.median_rank}};
    for (const auto& [k, share] : metrics.recall) json["recall_at_" + std::to_string(k)] = share;
    return json;
  }

  static void add(const RetrievalMetrics& metrics, const std::string& prefix,
                  std::vector<std::pair<std::string, double>>& values) {
    for (const auto& [k, share] : metrics.recall)
      values.emplace_back(prefix + "_recall_at_" + std::to_string(k), share);
    values.emplace_back(prefix + "_mean_rank", metrics.mean_rank);
    values.emplace_back(prefix + "_median_rank", metrics.median_rank);
  }

  /// "images: recall at 1 23.1 %, at 5 60.0 %, median rank 4".
  std::string headline(const RetrievalMetrics& metrics) const {
    std::string text;
    for (const auto& [k, share] : metrics.recall)
      text += (text.empty() ? "" : ", ") + std::string("recall at ") + std::to_string(k) + " " +
              runner::percent(share) + " %";
    return text + ", median rank " + std::to_string(static_cast<std::int64_t>(metrics.median_rank));
  }

  RetrievalConfig config_;  // its batch is no larger than what fits, once that has been planned
};

runner::Result<std::unique_ptr<runner::Stage>> create_retrieval(runner::ConfigReader& reader) {
  RetrievalConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  config.predictor.pointer = reader.pointer();
  reader.read("recall_at", config.recall_at);
  std::ranges::sort(config.recall_at);
  config.finds_equal_captions = runner::choice<bool>(reader, "hits", {{"same_caption", true}, {"paired", false}});
  reader.read("tile", config.tile);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<RetrievalEvaluation>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateRetrieval = {"evaluate.retrieval", create_retrieval};

}  // namespace stages
