#include "stages/contrastive/evaluate_retrieval.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/contrastive/retrieval_examples.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/text_classes.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct RetrievalConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t examples = 0;            // number of images in each group
  std::vector<std::int64_t> recall_at;  // ascending
  bool finds_equal_captions = true;
  std::int64_t tile = 1;
};

/// Returns the embeddings of each pair: the image's, then its caption's. Captions are embedded
/// once, when the first images arrive.
class PairEmbeddings {
 public:
  PairEmbeddings(const Checkpoint& checkpoint, const std::vector<std::string>& captions)
      : model_(*checkpoint.model), texts_(checkpoint, captions) {}

  at::Tensor operator()(torch::nn::Module& network, const NamedTensors& inputs) {
    const at::Tensor& pixels = inputs.at("image");
    if (!captions_.defined())
      captions_ =
          texts_.embeddings(network, pixels.device(), std::max<std::int64_t>(1, pixels.size(0)));
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

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
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
      if (context.canceled()) throw runner::Canceled{};
    };
    const RetrievedPairs retrieved = retrieved_pairs(pairs, halves[0], halves[1], predictor.test());
    const RetrievalRanks ranks =
        retrieval_ranks(retrieved.images, retrieved.texts, retrieved.text_of, config_.tile, step);
    const RetrievalMetrics of_images = retrieval_metrics(ranks.image_to_text, config_.recall_at),
                           of_texts = retrieval_metrics(ranks.text_to_image, config_.recall_at);
    const Checkpoint& checkpoint = predictor.checkpoint();
    const auto pairs_count = static_cast<std::int64_t>(ranks.image_to_text.size());
    nlohmann::ordered_json json = {
        {"epoch", checkpoint.epoch},
        {"step", checkpoint.step},
        {"pairs", pairs_count},
        {"texts", retrieved.texts.size(0)},
        {"hits", config_.finds_equal_captions ? "same_caption" : "paired"},
        {"image_to_text", to_json(of_images)},
        {"text_to_image", to_json(of_texts)},
        {"skipped", pairs.skipped},
        {"smoke", context.node().smoke}};
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2) + "\n");
    write_similarity(retrieved, context.node().folder);
    write_retrieval_examples(retrieved, ranks, predictor.test(), config_.examples,
                             context.node().folder);
    const auto numbers = std::make_shared<Metrics>();
    add(of_images, "image_to_text", numbers->values);
    add(of_texts, "text_to_image", numbers->values);
    for (const auto& [name, value] : numbers->values)
      context.metric("evaluate/" + name, value, checkpoint.step);
    context.say("captions: " + headline(of_images) + "; images: " + headline(of_texts) + "; " +
                std::to_string(pairs_count) + " pairs, " +
                (config_.finds_equal_captions
                     ? "a match with an equal caption also counts as a hit: " +
                           std::to_string(retrieved.texts.size(0)) + " different captions"
                     : "only a sample's own image or caption counts as a hit"));
    return {{"metrics", numbers}};
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    const DatasetDescription test = inputs.get<Dataset>("test")->describe();
    if (test.captions.empty()) {
      throw StageError(ErrorCode::kOptionConflict, "the test set has no captions")
          .with_help(
              "set the data stage's caption option, for example 'data.caption=\"a photo of a "
              "{name}\"'");
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

  /// Returns the images and the texts that they are compared with: the distinct captions, in order
  /// of first occurrence, or the caption of each pair.
  RetrievedPairs retrieved_pairs(const ClassifiedSamples& pairs, const at::Tensor& images,
                                 const at::Tensor& texts, const Dataset& test) const {
    const std::vector<std::int64_t> captions = captions_of(pairs, test);
    const std::vector<std::string> words = test.describe().captions;
    RetrievedPairs result{.names = pairs.names, .images = images.contiguous()};
    std::map<std::int64_t, std::int64_t> number_of;
    std::vector<std::int64_t> firsts;
    for (std::int64_t pair = 0; pair < std::ssize(captions); ++pair) {
      const std::int64_t caption = captions[static_cast<std::size_t>(pair)];
      const auto [entry, is_new] =
          number_of.try_emplace(config_.finds_equal_captions ? caption : pair, std::ssize(firsts));
      result.text_of.push_back(entry->second);
      if (!is_new) continue;
      firsts.push_back(pair);
      result.captions.push_back(words.at(static_cast<std::size_t>(caption)));
    }
    result.texts = texts.index_select(0, torch::tensor(firsts));
    return result;
  }

  /// Returns the captions of all pairs except those of skipped samples.
  static std::vector<std::int64_t> captions_of(const ClassifiedSamples& pairs,
                                               const Dataset& test) {
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
    nlohmann::ordered_json json = {{"mean_rank", metrics.mean_rank},
                                   {"median_rank", metrics.median_rank}};
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

  /// Returns "recall at 1 23.1%, recall at 5 60.0%, median rank 4".
  std::string headline(const RetrievalMetrics& metrics) const {
    std::string text;
    for (const auto& [k, share] : metrics.recall)
      text += (text.empty() ? "" : ", ") + std::string("recall at ") + std::to_string(k) + " " +
              runner::percent(share) + "%";
    return text + ", median rank " + std::to_string(static_cast<std::int64_t>(metrics.median_rank));
  }

  RetrievalConfig config_;  // plan() reduces the batch size to what fits in memory
};

runner::Result<std::unique_ptr<runner::Stage>> create_retrieval(runner::ConfigReader& reader) {
  RetrievalConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  reader.read("examples", config.examples);
  config.predictor.pointer = reader.pointer();
  reader.read("recall_at", config.recall_at);
  std::ranges::sort(config.recall_at);
  config.finds_equal_captions =
      runner::choice<bool>(reader, "hits", {{"same_caption", true}, {"paired", false}});
  reader.read("tile", config.tile);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<RetrievalEvaluation>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateRetrieval = {"evaluate.retrieval", create_retrieval};

namespace {

/// The best match of a query so far.
struct Found {
  double product = -std::numeric_limits<double>::infinity();
  std::int64_t index = 0;

  /// Candidates are offered in index order, so ties go to the first.
  void offer(double other, std::int64_t at) {
    if (other > product) *this = {other, at};
  }
  bool is_preceded_by(double other, std::int64_t at) const {
    return other > product || (other == product && at < index);
  }
};

struct Square {
  std::int64_t image = 0, text = 0;  ///< its first row and column
  std::int64_t images = 0, texts = 0;
};

class PairProducts {
 public:
  PairProducts(const at::Tensor& images, const at::Tensor& texts, std::int64_t tile,
               const std::function<void()>& step)
      : images_(images), texts_(texts), tile_(tile), step_(step) {}

  /// Calls `use` with each square that `is_wanted` accepts, and with the square's products, in
  /// row-major order.
  template <typename Wanted, typename Use>
  void for_squares(const Wanted& is_wanted, const Use& use) const {
    const std::int64_t images = images_.size(0), texts = texts_.size(0);
    for (std::int64_t image = 0; image < images; image += tile_) {
      const std::int64_t rows = std::min(tile_, images - image);
      const at::Tensor some = images_.narrow(0, image, rows).to(at::kDouble);
      for (std::int64_t text = 0; text < texts; text += tile_) {
        const Square square{image, text, rows, std::min(tile_, texts - text)};
        if (!is_wanted(square)) continue;
        if (step_) step_();
        use(square, products(some, square).data_ptr<double>());
      }
    }
  }

 private:
  at::Tensor products(const at::Tensor& images, const Square& square) const {
    const at::Tensor result =
        at::mm(images, texts_.narrow(0, square.text, square.texts).to(at::kDouble).t());
    return images_.scalar_type() == at::kDouble ? result : result.to(at::kFloat).to(at::kDouble);
  }

  const at::Tensor &images_, &texts_;
  const std::int64_t tile_;
  const std::function<void()>& step_;
};

/// Finds the squares that contain a matching pair.
class OwnTexts {
 public:
  OwnTexts(std::span<const std::int64_t> text_of, std::int64_t tile) : tile_(tile) {
    for (std::size_t at = 0; at < text_of.size(); at += static_cast<std::size_t>(tile)) {
      const auto some =
          text_of.subspan(at, std::min(static_cast<std::size_t>(tile), text_of.size() - at));
      std::ranges::sort(sorted_.emplace_back(some.begin(), some.end()));
    }
  }
  bool operator()(const Square& square) const {
    const std::vector<std::int64_t>& own = sorted_[static_cast<std::size_t>(square.image / tile_)];
    const auto first = std::ranges::lower_bound(own, square.text);
    return first != own.end() && *first < square.text + square.texts;
  }

 private:
  const std::int64_t tile_;
  std::vector<std::vector<std::int64_t>> sorted_;  // texts of the images in each row of squares
};

}  // namespace

RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts,
                               std::span<const std::int64_t> text_of, std::int64_t tile,
                               const std::function<void()>& step) {
  assert(images.size(1) == texts.size(1) && images.scalar_type() == texts.scalar_type());
  const auto n = static_cast<std::size_t>(images.size(0)),
             m = static_cast<std::size_t>(texts.size(0));
  std::vector<std::int64_t> own;
  if (text_of.empty()) {
    own.resize(n);
    std::iota(own.begin(), own.end(), 0);
    text_of = own;
  }
  assert(text_of.size() == n && (!own.empty() ? m == n : true));
  std::vector<Found> of_image(n), of_text(m);
  const PairProducts pairs(images, texts, tile, step);

  pairs.for_squares(OwnTexts(text_of, tile), [&](const Square& square, const double* products) {
    for (std::int64_t row = 0; row < square.images; ++row, products += square.texts) {
      const std::int64_t image = square.image + row,
                         text = text_of[static_cast<std::size_t>(image)];
      if (text < square.text || text >= square.text + square.texts) continue;
      const double product = products[text - square.text];
      of_image[static_cast<std::size_t>(image)].offer(product, text);
      of_text[static_cast<std::size_t>(text)].offer(product, image);
    }
  });

  RetrievalRanks ranks{std::vector<std::int64_t>(n), std::vector<std::int64_t>(m)};
  pairs.for_squares([](const Square&) { return true; },
                    [&](const Square& square, const double* product) {
                      for (std::int64_t row = 0; row < square.images; ++row) {
                        const auto image = static_cast<std::size_t>(square.image + row);
                        std::int64_t before = 0;
                        for (std::int64_t column = 0; column < square.texts; ++column, ++product) {
                          const auto text = static_cast<std::size_t>(square.text + column);
                          before += of_image[image].is_preceded_by(*product, square.text + column);
                          ranks.text_to_image[text] +=
                              of_text[text].is_preceded_by(*product, square.image + row);
                        }
                        ranks.image_to_text[image] += before;
                      }
                    });
  return ranks;
}

RetrievalMetrics retrieval_metrics(std::span<const std::int64_t> ranks,
                                   std::span<const std::int64_t> recall_at) {
  assert(!ranks.empty());
  std::vector<std::int64_t> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  RetrievalMetrics metrics;
  metrics.mean_rank =
      static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0})) /
          static_cast<double>(n) +
      1;
  metrics.median_rank = static_cast<double>((sorted[(n - 1) / 2] + sorted[n / 2]) / 2 + 1);
  for (const std::int64_t k : recall_at) {
    const auto found = std::ranges::lower_bound(sorted, k) - sorted.begin();
    metrics.recall[k] = static_cast<double>(found) / static_cast<double>(n);
  }
  return metrics;
}

}  // namespace stages
