#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "stages/model/pretrained.h"
#include "stages/model/vision_tower.h"
#include "tests/parity/recorded_case.h"

/// The vision tower of a recorded model, loaded into our network, with its inputs.
class RecordedTower {
 public:
  RecordedTower(const RecordedCase& recorded, const std::filesystem::path& weights_file,
                at::ScalarType type);

  const std::string& family() const { return family_; }
  const at::Tensor& pixels() const { return pixels_; }
  const at::Tensor& labels() const { return labels_; }
  const stages::NamedTensors& saved() const { return saved_; }
  const stages::ImageClassifier& network() const { return *network_; }
  const std::shared_ptr<stages::ImageClassifier>& shared_network() const { return network_; }
  bool is_projected() const {
    return network_->named_parameters().contains("visual_projection.weight");
  }
  stages::WeightLayout layout() const { return layout_; }

  /// The scalar for which gradients were recorded, if there is no loss.
  at::Tensor probe(const at::Tensor& y) const;
  /// The gradient of the weight that the library calls `theirs`, in the library's shape; undefined
  /// if the tower has no such weight.
  at::Tensor gradient(const std::string& theirs) const;

 private:
  at::IntArrayRef saved_shape(const std::string& ours, const at::Tensor& gradient) const;
  at::Tensor gradient_of_positions(const std::string& theirs) const;
  void build(const nlohmann::json& config);
  void load_head();

  const std::string family_;
  const std::uint64_t seed_;
  const at::ScalarType type_;
  at::Tensor pixels_, labels_;
  stages::NamedTensors saved_;
  stages::WeightLayout layout_{};
  stages::PositionResize resize_{};
  std::shared_ptr<stages::ImageClassifier> network_;
};
