#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/model/caption_tokens.h"
#include "stages/model/hosted_network.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The section `towers` of a network that Python makes.
struct TowerOptions {
  std::string pointer;                   ///< place in the recipe, "/model/towers"
  std::string image, text, logit_scale;  ///< two methods and a parameter, by their names in Python
  std::optional<double> maximum_logit_scale;
  TokenizerOptions tokenizer;
  CaptionContext context;
  bool fills_context = true;  ///< texts are padded to the context, not to the longest of a batch
};

TowerOptions read_tower_options(runner::ConfigReader& reader);

/// A network of Python that embeds images and texts, by a method for each.
class TwoTowers : public HostedNetwork {
 public:
  /// Throws runner::StageError also if the network lacks what `options` name, or if its factor's
  /// logarithm is no sensible one.
  TwoTowers(const nlohmann::ordered_json& request, bool draws, nlohmann::ordered_json description,
            TowerOptions options);

  /// As a Model::forward() of an ImageTextModel: the outputs of the towers that the inputs are for.
  /// Rows are divided by their lengths. Throws runner::StageError if the towers do not suit one
  /// another.
  NamedTensors embed(const NamedTensors& inputs);
  const at::Tensor& logit_scale() const { return logit_scale_; }
  /// True once both towers have run.
  bool has_run() const { return widths_.size() == 2; }

 private:
  at::Tensor embedded(const std::string& tower, const at::Tensor& input);
  void check_scale() const;

  const TowerOptions options_;
  at::Tensor logit_scale_;
  std::map<std::string, std::int64_t> widths_;  // of the embeddings, by tower
};

/// Throws runner::StageError if a network that has embeddings of `rows` tokens does not suit a
/// tokenizer of `size` tokens.
void check_vocabulary(std::int64_t rows, std::int64_t size, const TowerOptions& options);

}  // namespace stages
