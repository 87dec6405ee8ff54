#include "stages/few_shot/model_few_shot_transformer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/few_shot/episode_model.h"
#include "stages/numerics/precision_map.h"
#include "stages/numerics/sharded_build.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_few_shot_transformer(
    runner::ConfigReader& reader) {
  FewShotHeadOptions head;
  head.learned_prototypes =
      runner::choice<bool>(reader, "prototype", {{"learned", true}, {"mean", false}});
  head.attention = runner::choice<PairAttention>(reader, "attention", kPairAttentions);
  reader.read("depth", head.depth);
  reader.read("heads", head.heads);
  reader.read("head_width", head.head_width);
  reader.read("mlp_width", head.mlp_width);
  runner::ConfigReader& score = reader.section("score");
  score.read("width", head.score.width);
  head.score.weight_normalized =
      runner::choice<bool>(score, "form", {{"weight_normalized", true}, {"linear", false}});
  head.score.norm = runner::choice<ScoreNorm>(score, "normalize_over", kScoreNorms);
  score.read("scale", head.score.scale);
  return episode_model_stage(reader, {.pointer = {}, .backbone = {}, .head = std::move(head)});
}

}  // namespace

extern const runner::StageKind kModelFewShotTransformer = {"model.few_shot_transformer",
                                                           create_few_shot_transformer};

namespace {

constexpr std::size_t kNamedShared = 10;

using FileIdentity = std::pair<dev_t, ino_t>;

/// Collects the classes or image files that two parts share.
class SharedThings {
 public:
  SharedThings(const char* one, const char* many) : one_(one), many_(many) {}

  void add(const std::string& name) { names_.push_back(name); }
  bool any() const { return !names_.empty(); }
  runner::Diagnostic error(Part earlier, Part later, const std::string& help) const {
    return {runner::ErrorCode::kBadAnnotations,
            {},
            "/" + std::string(name(later)),
            "train, validation and test must not overlap: " + std::string(name(earlier)) + " and " +
                std::string(name(later)) + " both contain the " +
                (names_.size() == 1 ? one_ : std::to_string(names_.size()) + " " + many_) + " " +
                runner::listed(names_, kNamedShared, "'"),
            help};
  }

 private:
  std::string one_, many_;
  std::vector<std::string> names_;
};

SharedThings shared_classes(const FewShotPart& earlier, const FewShotPart& later) {
  SharedThings shared("class", "classes");
  if (!earlier.is_named || !later.is_named) return shared;
  for (const std::string& name : later.list.classes) {
    if (place_of_name(name, earlier.list.classes)) shared.add(name);
  }
  return shared;
}

std::map<FileIdentity, const ImageFile*> files_by_identity(const ImageList& list, Part part) {
  std::map<FileIdentity, const ImageFile*> files;
  for (const ImageFile& file : list[part]) {
    struct stat status {};
    if (::stat((list.root / file.name).c_str(), &status) == 0)
      files.emplace(FileIdentity(status.st_dev, status.st_ino), &file);
  }
  return files;
}

}  // namespace

void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors) {
  constexpr std::array kParts = {Part::kTrain, Part::kValidation, Part::kTest};
  std::array<std::map<FileIdentity, const ImageFile*>, kSplitParts> files;
  for (std::size_t later = 0; later < kSplitParts; ++later) {
    files[later] = files_by_identity(parts[later].list, kParts[later]);
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const SharedThings classes = shared_classes(parts[earlier], parts[later]);
      if (classes.any()) {
        errors.push_back(
            classes.error(kParts[earlier], kParts[later],
                          "use different classes for each part; classes: alternating divides one "
                          "folder, and validation: null leaves that part out"));
        continue;  // their images are the same, too
      }
      SharedThings images("image", "images");
      for (const auto& [identity, file] : files[later]) {
        if (files[earlier].contains(identity)) images.add(file->name);
      }
      if (images.any())
        errors.push_back(
            images.error(kParts[earlier], kParts[later], "remove them from one of the lists"));
    }
  }
}

namespace {

const TensorSpec* tensor_named(const DatasetDescription& data, std::string_view name) {
  const auto found = std::ranges::find(data.tensors, name, &TensorSpec::name);
  return found == data.tensors.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_episode(const std::string& message, const std::string& help,
                                 const std::string& pointer) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict, message)
      .in_stage(pointer)
      .with_help(help);
}

}  // namespace

EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer) {
  const TensorSpec *support = tensor_named(data, "support"), *label = tensor_named(data, "label");
  if (!support || !label || support->shape.size() != 2 || label->shape.size() != 1) {
    refuse_episode("this model learns from episodes, but the data consists of single samples",
                   "use train.episodic, which draws episodes from a data stage's images", pointer);
  }
  const TensorSpec* image = tensor_named(data, "image");
  if (!image || image->shape.size() != 4 || image->shape[1] != 3) {
    refuse_episode(
        "the episodes have no three-channel images",
        "this model classifies color images: connect it to a data stage with such images", pointer);
  }
  const EpisodeImages episode{.ways = support->shape[0],
                              .shots = support->shape[1],
                              .queries = label->shape[0],
                              .height = image->shape[2],
                              .width = image->shape[3]};
  if (image->shape[0] != episode.supports() + episode.queries) {
    refuse_episode("an episode has " + std::to_string(image->shape[0]) + " images, but " +
                       std::to_string(episode.supports()) + " supports and " +
                       std::to_string(episode.queries) + " queries",
                   "provide one image for each of them", pointer);
  }
  return episode;
}

namespace {

constexpr std::string_view kBackbonePrefix = "backbone.";

}  // namespace

at::Tensor directions(const at::Tensor& x) {
  const ScopedPrecision full(Precision::kFp32, x.device());
  const bool is_half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  const at::Tensor wide = is_half ? x.to(at::kFloat) : x;
  const at::Tensor length = wide.norm(2, {-1}, /*keepdim=*/true);
  return wide / length.masked_fill(length == 0, 1);
}

EpisodeNetwork::EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone,
                               std::shared_ptr<EpisodeHead> head)
    : backbone_(register_module("backbone", std::move(backbone))),
      head_(register_module("head", std::move(head))) {}

void EpisodeNetwork::freeze_backbone(std::string base) {
  is_backbone_frozen_ = true;
  base_ = std::move(base);
  for (at::Tensor& parameter : backbone_->parameters()) parameter.requires_grad_(false);
}

bool EpisodeNetwork::is_base(std::string_view weight) const {
  return is_backbone_frozen_ && weight.starts_with(kBackbonePrefix);
}

at::Tensor EpisodeNetwork::maps_of(const at::Tensor& images) const {
  std::optional<torch::NoGradGuard> no_graph;
  if (is_backbone_frozen_) no_graph.emplace();
  return backbone_->forward(images);
}

NamedTensors EpisodeNetwork::forward(const NamedTensors& inputs) const {
  const OwnPrecision own(*this);
  const bool has_maps = inputs.contains("features");
  const at::Tensor images = own(inputs.at(has_maps ? "features" : "image"));
  const std::int64_t ways = inputs.at("support").size(1), shots = inputs.at("support").size(2);
  const std::int64_t supports = ways * shots, queries = images.size(1) - supports;
  if (queries < 1) throw std::invalid_argument("an episode without queries");
  std::vector<at::Tensor> logits, support_features;
  for (std::int64_t episode = 0; episode < images.size(0); ++episode) {
    const at::Tensor maps = has_maps ? images[episode] : maps_of(images[episode]);
    // Autograd concatenates the gradients of split tensors; the gradients of slices would be padded
    // and added.
    const std::vector<at::Tensor> parts = maps.flatten(1).split_with_sizes({supports, queries});
    const EpisodeFeatures features{.supports = parts[0].view({ways, shots, -1}),
                                   .queries = parts[1],
                                   .map = {maps.size(1), maps.size(2), maps.size(3)}};
    logits.push_back(head_->forward(features));
    support_features.push_back(features.supports);
  }
  return {{"logits", torch::stack(logits)}, {"support_features", torch::stack(support_features)}};
}

namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr double kLayerNormEpsilon = 1e-5;

at::Tensor float_at_least(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

/// Returns "5 ways of 1 shot".
std::string episode_text(std::int64_t ways, std::int64_t shots) {
  return std::to_string(ways) + (ways == 1 ? " way" : " ways") + " of " + std::to_string(shots) +
         (shots == 1 ? " shot" : " shots");
}

std::string map_text(const MapShape& map) {
  return std::to_string(map.channels) + " x " + std::to_string(map.height) + " x " +
         std::to_string(map.width);
}

}  // namespace

PairAttentionLayer::PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head,
                                       const at::TensorOptions& options)
    : attention_(head.attention),
      heads_(head.heads),
      norm_(
          register_module("norm", std::make_shared<LayerNorm>(width, kLayerNormEpsilon, options))),
      in_(register_module("in", std::make_shared<Linear>(width, head.heads * head.head_width,
                                                         /*with_bias=*/false, options))) {
  if (head.heads == 1 && head.head_width == width) return;
  out_ = register_module("out", std::make_shared<Linear>(head.heads * head.head_width, width,
                                                         /*with_bias=*/true, options));
}

at::Tensor PairAttentionLayer::projected(const at::Tensor& x) const {
  return in_->forward(norm_->forward(x)).unflatten(-1, {heads_, -1});
}

at::Tensor PairAttentionLayer::cosines_of(const at::Tensor& asking,
                                          const at::Tensor& projected_queries) const {
  return (directions(projected(asking)) * directions(projected_queries).unsqueeze(1)).sum(-1);
}

at::Tensor PairAttentionLayer::cosines(const at::Tensor& asking, const at::Tensor& queries) const {
  const OwnPrecision own(*this);
  return cosines_of(own(asking), projected(own(queries)));
}

at::Tensor PairAttentionLayer::forward(const at::Tensor& asking, const at::Tensor& queries) const {
  const OwnPrecision own(*this);
  const at::Tensor values = projected(own(queries));  // (queries, heads, head width)
  at::Tensor seen;
  switch (attention_) {
    case PairAttention::kCosine:
      seen = (cosines_of(own(asking), values).unsqueeze(-1) * values.unsqueeze(1)).flatten(2);
      break;
    case PairAttention::kSoftmax:
      // The softmax over one key is always 1, and its gradient is 0.
      seen = values.flatten(1).unsqueeze(1);
      break;
  }
  return out_ ? out_->forward(seen) : seen;
}

ResidualMlp::ResidualMlp(std::int64_t width, std::int64_t inner_width,
                         const at::TensorOptions& options)
    : norm_(
          register_module("norm", std::make_shared<LayerNorm>(width, kLayerNormEpsilon, options))),
      mlp_(register_module(
          "mlp", std::make_shared<Mlp>(width, inner_width, Activation::kGelu, options))) {}

at::Tensor ResidualMlp::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return mlp_->forward(norm_->forward(x)) + x;
}

PairScore::PairScore(std::int64_t inputs, const PairScoreOptions& score,
                     const at::TensorOptions& options)
    : score_(score),
      norm_(
          register_module("norm", std::make_shared<LayerNorm>(inputs, kLayerNormEpsilon, options))),
      inner_(register_module(
          "inner", std::make_shared<Linear>(inputs, score.width, /*with_bias=*/true, options))) {
  if (!score.weight_normalized) {
    out_ = register_module("out",
                           std::make_shared<Linear>(score.width, 1, /*with_bias=*/true, options));
    return;
  }
  direction = register_parameter("direction", torch::empty({1, score.width}, options));
  length = register_parameter("length", torch::empty({1, 1}, options));
}

at::Tensor PairScore::forward(const at::Tensor& input) const {
  constexpr double kLeastLength = 1e-5;
  constexpr std::int64_t kWays = 1, kFeatures = 2;
  const OwnPrecision own(*this);
  const at::Tensor inner = inner_->forward(norm_->forward(own(input)));
  const ScopedPrecision full(Precision::kFp32, inner.device());
  at::Tensor x = float_at_least(inner);
  if (score_.norm != ScoreNorm::kNone) {
    const std::int64_t over = score_.norm == ScoreNorm::kWay ? kWays : kFeatures;
    x = x / (x.norm(2, {over}, /*keepdim=*/true) + kLeastLength);
  }
  const at::Tensor scores =
      out_ ? out_->forward(x) : torch::linear(x, length * directions(direction));
  return scores.squeeze(-1) * score_.scale;
}

FewShotHead::FewShotHead(const FewShotHeadOptions& head, const EpisodeImages& episode,
                         const MapShape& map, const at::TensorOptions& options)
    : options_(head),
      map_(map),
      attention_(register_module(
          "attention", std::make_shared<PairAttentionLayer>(map.features(), head, options))),
      mlp_(
          register_module("mlp", make_block<ResidualMlp>(map.features(), head.mlp_width, options))),
      score_(register_module("score",
                             std::make_shared<PairScore>(map.features(), head.score, options))) {
  if (!head.learned_prototypes) return;
  prototype_weight = register_parameter("prototype_weight",
                                        torch::empty({episode.ways, episode.shots, 1}, options));
}

at::Tensor FewShotHead::prototypes(const at::Tensor& supports) const {
  if (!prototype_weight.defined()) return float_at_least(supports).mean(1);
  const std::int64_t ways = prototype_weight.size(0), shots = prototype_weight.size(1);
  if (supports.size(0) != ways || supports.size(1) != shots) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the prototypes are learned for episodes of " + episode_text(ways, shots) +
                         ", but these have " + episode_text(supports.size(0), supports.size(1)))
        .at("/prototype")
        .in_stage(options_.pointer)
        .with_help(
            "train and evaluate with the same ways and shots, or train with 'prototype: mean'");
  }
  return (torch::softmax(prototype_weight, /*dim=*/1) * float_at_least(supports)).sum(1);
}

at::Tensor FewShotHead::forward(const EpisodeFeatures& features) const {
  const OwnPrecision own(*this);
  if (features.map != map_) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the model was created for features of " + map_text(map_) +
                         ", but these images have features of " + map_text(features.map))
        .in_stage(options_.pointer)
        .with_help("train and evaluate with images of the same size");
  }
  const at::Tensor queries = own(features.queries);
  at::Tensor x = prototypes(own(features.supports)).unsqueeze(0);
  for (std::int64_t layer = 0; layer < options_.depth; ++layer)
    x = mlp_->forward(attention_->forward(x, queries) + x);
  return score_->forward(x);
}

CrossHead::CrossHead(const CrossHeadOptions& head, const MapShape& map,
                     const at::TensorOptions& options)
    : options_(head),
      channels_(map.channels),
      projection_(register_module(
          "projection",
          std::make_shared<Convolution>(
              ConvolutionSizes{.in = map.channels, .out = head.width, .size = 1}, options))) {}

at::Tensor CrossHead::projected(const at::Tensor& features, const MapShape& map) const {
  const at::Tensor maps = features.view({-1, channels_, map.height, map.width});
  return projection_->forward(maps).flatten(1);
}

at::Tensor CrossHead::weights_of(const at::Tensor& queries, const at::Tensor& supports) const {
  const auto products = [&](const at::Tensor& q, const at::Tensor& s) {
    return q.matmul(s.flatten(0, 1).t()).view({q.size(0), s.size(0), s.size(1)});
  };
  if (options_.attention == PairAttention::kCosine)
    return products(directions(queries), directions(supports));
  return torch::softmax(
      products(queries, supports) / std::sqrt(static_cast<double>(options_.width)), /*dim=*/2);
}

at::Tensor CrossHead::forward(const EpisodeFeatures& features) const {
  const OwnPrecision own(*this);
  const std::int64_t ways = features.supports.size(0), shots = features.supports.size(1);
  const auto in_float = [](const at::Tensor& x) {
    return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  };
  const at::Tensor queries = in_float(projected(own(features.queries), features.map));
  const at::Tensor supports =
      in_float(projected(own(features.supports).flatten(0, 1), features.map))
          .view({ways, shots, -1});
  // Distances are differences of large numbers, so they need full precision.
  const ScopedPrecision full(Precision::kFp32, queries.device());
  const at::Tensor weights =
      weights_of(queries, supports).transpose(0, 1);       // (ways, queries, shots)
  const at::Tensor prototypes = weights.matmul(supports);  // (ways, queries, d)
  const at::Tensor distances =
      (queries.unsqueeze(0) - prototypes).square().sum(-1);  // (ways, queries)
  return -distances.t() / static_cast<double>(features.map.height * features.map.width);
}

}  // namespace stages
