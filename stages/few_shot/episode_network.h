#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/feature_maps.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// What a backbone makes of the images of one episode: its maps, flattened channel by channel.
struct EpisodeFeatures {
  at::Tensor supports;  ///< (ways, shots, map.features())
  at::Tensor queries;   ///< (queries, map.features())
  MapShape map;
};

/// The part of a network that tells the queries of an episode apart by its supports.
class EpisodeHead : public PrecisionModule {
 public:
  /// The logits (queries, ways). Throws runner::StageError where the head does not suit such an episode.
  virtual at::Tensor forward(const EpisodeFeatures& features) const = 0;
};

/// `x` with its last dimension divided by its length, in float32 at least. What is 0 throughout has no direction and
/// stays 0, so that its cosine with anything is 0, and gets the gradient of what it is divided to: nothing becomes NaN.
at::Tensor directions(const at::Tensor& x);

/// A backbone and a head. Children: backbone and head.
class EpisodeNetwork : public PrecisionModule, public OnFrozenBase {
 public:
  EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone, std::shared_ptr<EpisodeHead> head);

  /// What the backbone makes of images (n, 3, height, width), without a graph where it is frozen.
  at::Tensor maps_of(const at::Tensor& images) const;

  /// Of "image" (episodes, supports + queries, 3, height, width), supports first and class by class, and "support"
  /// (episodes, ways, shots), of which only the shape matters: {"logits": (episodes, queries, ways),
  /// "support_features": (episodes, ways, shots, features)}. One episode after the other goes through, all its images
  /// as one batch, so that what one becomes depends on no other. "features" (episodes, supports + queries, channels,
  /// height', width') stand for the maps of the images.
  NamedTensors forward(const NamedTensors& inputs) const;

  /// From now on the backbone is not trained and runs without a graph. `base` stands for its weights and buffers.
  void freeze_backbone(std::string base);
  bool is_base(std::string_view weight) const override;
  const std::string& base() const override { return base_; }

  FeatureMaps& backbone() const { return *backbone_; }
  EpisodeHead& head() const { return *head_; }

  std::vector<std::string> notes;  ///< where its weights are from

 private:
  const std::shared_ptr<FeatureMaps> backbone_;
  const std::shared_ptr<EpisodeHead> head_;
  bool is_backbone_frozen_ = false;
  std::string base_;
};

}  // namespace stages
