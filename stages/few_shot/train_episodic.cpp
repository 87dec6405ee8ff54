#include "stages/few_shot/train_episodic.h"

#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/numerics/precision_map.h"
#include "stages/tensor/loss_term.h"
#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

/// The weights of the loss terms and how to compute the terms. Terms with weight 0 are left out.
struct EpisodicLoss {
  double classification = 1, variance = 0, covariance = 0;
  double variance_target = 1;
  Deviation deviation = Deviation::kUnbiased;
  CovarianceForm form = CovarianceForm::kDirect;
  bool runs_twice =
      false;  ///< run the backbone twice: once for the support features and once for the scores

  bool sees_features() const { return variance > 0 || covariance > 0; }
};

struct EpisodicOptions {
  EpisodeShape shape;
  std::int64_t episodes = 1, validation_episodes = 1;
  EpisodicLoss loss;
};

/// Cross-entropy of the queries of each episode (Nguyen et al., "Enhancing Few-Shot Image
/// Classification With Cosine Transformer", IEEE Access 11, 2023), plus terms for the variation of
/// the episode's support features, as in a fork of the published program. A unit is an episode; the
/// loss is the mean over episodes.
class EpisodicStep final : public TrainingStep {
 public:
  EpisodicStep(const Model& model, const EpisodicLoss& loss) : model_(model), loss_(loss) {}

  std::vector<LossTerm> terms() const override {
    std::vector<LossTerm> terms;
    if (loss_.classification > 0) terms.push_back({"classification", Coupling::kPerGroup});
    if (loss_.variance > 0) terms.push_back({"variance", Coupling::kPerGroup});
    if (loss_.covariance > 0)
      terms.push_back({"covariance", Coupling::kPerGroup, /*has_forms=*/true});
    return terms;
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }

  std::string why_not_replayed() const override { return {}; }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    if (!loss_.runs_twice || !loss_.sees_features()) return model_.forward(network, part.tensors());
    const at::Tensor features = model_.forward(network, part.tensors()).at("support_features");
    NamedTensors encoded = model_.forward(network, part.tensors());
    encoded.set("support_features", features);
    return encoded;
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    NamedTensors sums;
    if (loss_.classification > 0) {
      const ScopedLossTerm term("loss.classification");
      const at::Tensor& logits = encoded.at("logits");  // (episodes, queries, ways)
      const at::Tensor sum =
          cross_entropy_sum(logits.flatten(0, 1), part["label"].flatten(), /*label_smoothing=*/0);
      sums.set("classification",
               sum * (loss_.classification / static_cast<double>(logits.size(1))));
    }
    if (loss_.variance > 0) {
      const ScopedLossTerm term("loss.variance");
      sums.set("variance",
               sum_over_episodes(encoded, loss_.variance, [&](const at::Tensor& features) {
                 return support_variance_loss(features, loss_.variance_target, loss_.deviation);
               }));
    }
    if (loss_.covariance > 0) {
      const ScopedLossTerm term("loss.covariance");
      sums.set("covariance",
               sum_over_episodes(encoded, loss_.covariance, [&](const at::Tensor& features) {
                 return support_covariance_loss(features, loss_.form);
               }));
    }
    return sums;
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    return {
        {"accuracy", correct_count(encoded.at("logits").flatten(0, 1), part["label"].flatten())}};
  }
  /// Returns the number of queries.
  std::int64_t scored(const Batch& batch) const override { return batch["label"].numel(); }

 private:
  /// Returns a loss term of the support features (ways, shots, width), as a weighted sum over
  /// episodes.
  template <typename Term>
  static at::Tensor sum_over_episodes(const NamedTensors& encoded, double weight,
                                      const Term& term) {
    const at::Tensor& features = encoded.at("support_features");
    at::Tensor sum = term(features[0]);
    for (std::int64_t episode = 1; episode < features.size(0); ++episode)
      sum = sum + term(features[episode]);
    return sum * weight;
  }

  const Model& model_;
  const EpisodicLoss loss_;
};

EpisodicLoss read_episodic_loss(runner::ConfigReader& reader) {
  EpisodicLoss loss;
  reader.read("classification", loss.classification);
  reader.read("variance", loss.variance);
  reader.read("covariance", loss.covariance);
  reader.read("variance_target", loss.variance_target);
  loss.deviation = runner::choice<Deviation>(
      reader, "deviation", {{"unbiased", Deviation::kUnbiased}, {"biased", Deviation::kBiased}});
  if (loss.classification == 0 && loss.variance == 0 && loss.covariance == 0) {
    reader.fail("classification", runner::ErrorCode::kOptionConflict,
                "all loss terms have weight 0", "set loss.classification: 1.0");
  }
  return loss;
}

runner::Result<std::unique_ptr<runner::Stage>> create_episodic(runner::ConfigReader& reader) {
  EpisodicOptions options;
  reader.read("ways", options.shape.ways);
  reader.read("shots", options.shape.shots);
  reader.read("queries", options.shape.queries);
  reader.read("episodes", options.episodes);
  reader.read("validation_episodes", options.validation_episodes);
  options.loss = read_episodic_loss(reader.section("loss"));
  reader.read("legacy_double_forward", options.loss.runs_twice);

  const auto draw = [options](TrainingData data, std::uint64_t seed) {
    data.train = std::make_shared<EpisodeSet>(
        data.train,
        EpisodeSet::Options{
            .shape = options.shape, .episodes = options.episodes, .seed = seed, .draws_anew = true},
        "the training data");
    if (data.validation) {
      data.validation = std::make_shared<EpisodeSet>(
          data.validation,
          EpisodeSet::Options{
              .shape = options.shape, .episodes = options.validation_episodes, .seed = seed},
          "the validation data");
    }
    return data;
  };
  const auto make_step = [options](const Model& model, const TrainingData&,
                                   const MemoryPolicy& policy) {
    EpisodicLoss loss = options.loss;
    if (policy.uses_gram_form()) loss.form = CovarianceForm::kGram;
    return std::make_unique<EpisodicStep>(model, loss);
  };
  return make_training_stage(reader, {.draw = draw,
                                      .make_step = make_step,
                                      .scores = {"accuracy"},
                                      .batch_option = "episodes_per_step"});
}

}  // namespace

extern const runner::StageKind kTrainEpisodic = {.name = "train.episodic",
                                                 .create = create_episodic};

namespace {

/// Returns half-precision features as float32: their squares could overflow, and sums of squares
/// would lose small differences.
at::Tensor in_full_precision(const at::Tensor& features) {
  assert(features.dim() == 3);
  const bool is_half =
      features.scalar_type() == at::kHalf || features.scalar_type() == at::kBFloat16;
  return is_half ? features.to(at::kFloat) : features;
}

}  // namespace

at::Tensor support_variance_loss(const at::Tensor& features, double target, Deviation deviation) {
  const bool is_unbiased = deviation == Deviation::kUnbiased;
  if (is_unbiased && features.size(1) < 2) {
    throw std::invalid_argument("the unbiased standard deviation of a single shot is undefined");
  }
  const ScopedPrecision full(Precision::kFp32, features.device());
  // A norm is used because it has a Meta kernel and a gradient of 0 if nothing varies.
  const at::Tensor full_features = in_full_precision(features);
  const at::Tensor apart = full_features - full_features.mean(/*dim=*/1, /*keepdim=*/true);
  const auto count = static_cast<double>(features.size(1) - (is_unbiased ? 1 : 0));
  const at::Tensor deviations = at::linalg_vector_norm(apart, 2, /*dim=*/1) / std::sqrt(count);
  return (target - deviations).clamp_min(0).mean();
}

at::Tensor support_covariance_loss(const at::Tensor& features, CovarianceForm form) {
  const ScopedPrecision full(Precision::kFp32, features.device());
  return covariance_loss(in_full_precision(features).flatten(0, 1), form);
}

}  // namespace stages
