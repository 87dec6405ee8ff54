#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "stages/model/caption_tokens.h"
#include "stages/model/hosted_network.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// A tokenizer that Python creates.
struct PythonTokenizerOptions {
  std::string entry;                 ///< "open_clip:get_tokenizer", "my_tokens.py:make"
  nlohmann::ordered_json arguments;  ///< a mapping
};

/// The options in the `towers` section of model.python.
struct TowerOptions {
  std::string pointer;                    ///< location in the recipe, "/model/towers"
  std::string image, text, logit_scale;   ///< Python names of two methods and a parameter
  std::optional<std::string> logit_bias;  ///< a parameter; nullopt: none
  std::optional<std::string> class_head;  ///< a module or method; nullopt: none
  std::optional<double> maximum_logit_scale;
  std::optional<PythonTokenizerOptions> python_tokenizer;  ///< nullopt: CLIP's, with the options
                                                           ///< below
  TokenizerOptions tokenizer;
  CaptionContext context;
  bool fills_context =
      true;  ///< pad texts to the context length, not to the longest text in a batch
};

TowerOptions read_tower_options(runner::ConfigReader& reader);

/// A Python network with a method that embeds images and a method that embeds texts. It may have a
/// class head, which turns image embeddings of length 1 into logits.
class TwoTowers : public HostedNetwork {
 public:
  /// Throws runner::StageError like HostedNetwork, and if the network lacks a method or parameter
  /// named in `options`, or if the initial value of its logit scale is unreasonable.
  TwoTowers(const nlohmann::ordered_json& request, bool draws, nlohmann::ordered_json description,
            TowerOptions options);

  /// Implements Model::forward() for an ImageTextModel: returns the embeddings of the images or
  /// tokens in `inputs`, each of length 1, the logits of the images if there is a class head, the
  /// logit scale, and the logit bias if there is one. Throws runner::StageError if an embedding or
  /// the logits have an unexpected shape or type, or if the towers' widths differ.
  NamedTensors embed(const NamedTensors& inputs);
  const at::Tensor& logit_scale() const { return logit_scale_; }
  /// True once both towers have run.
  bool has_run() const { return widths_.size() == 2; }

 private:
  at::Tensor output_of(const std::string& tower, const at::Tensor& input);
  at::Tensor embedded(const std::string& tower, const at::Tensor& input);
  at::Tensor classified(const at::Tensor& image_embeddings);
  at::Tensor parameter(const std::string& option, const std::string& name,
                       const std::string& advice) const;
  void check_scale() const;

  const TowerOptions options_;
  at::Tensor logit_scale_;
  at::Tensor logit_bias_;                       // undefined if there is none
  std::map<std::string, std::int64_t> widths_;  // width of the embeddings, by tower
};

/// Throws runner::StageError if a network with embeddings for `rows` tokens does not suit a
/// tokenizer with `size` tokens.
void check_vocabulary(std::int64_t rows, std::int64_t size, const TowerOptions& options);

}  // namespace stages
