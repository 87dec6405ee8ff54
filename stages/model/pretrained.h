#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/model/weight_names.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// How position embeddings are resized to a different number of patches.
enum class PositionResize {
  kBicubic,           ///< without antialiasing, like transformers' interpolate_pos_encoding
  kBicubicAntialias,  ///< with antialiasing, always in float32, like timm's resample_abs_pos_embed
};

/// Resizes position embeddings (1 + n², width), with the class token's first, to (tokens, width)
/// for another grid; `tokens` must be one more than a square. The class token's embedding stays
/// unchanged. The operation is differentiable.
at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how);

/// Returns the side of the square grid that `tokens` form without the class token; 0 if they do not
/// form a square.
std::int64_t grid_side(std::int64_t tokens);

/// Returns the side of the grid of `rows` position embeddings in timm's files; 0 if they do not
/// form a square. Files of DINOv2 with register tokens have none for the class token.
std::int64_t timms_grid_side(std::int64_t rows);

/// A report on every tensor in a weights file and every weight of the network.
struct PretrainedReport {
  WeightLayout layout = WeightLayout::kClip;
  std::int64_t taken = 0;                ///< weights of the network that now have the file's values
  std::vector<std::string> missing;      ///< weights that the file lacks, by their names in files
  std::vector<std::string> unexpected;   ///< tensors that belong to no part of such a model
  std::vector<std::string> wrong_shape;  ///< "vit.layernorm.weight [48] for [64]"
  std::vector<std::string>
      left_out;  ///< tensors of parts that are not in this network: a text tower, another head
  std::vector<std::string> random;  ///< weights that no file of this layout has: the head
  std::string wrapper;  ///< prefix of the names in the file: "module.", "clip."; empty: none
  std::int64_t positions_before = 0,
               positions_after = 0;  ///< side of the grid, if it was resized

  bool fits() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
  /// Returns "152 weights of timm's ViT; position embeddings resized from 14 x 14 to 24 x 24; left
  /// out: head.weight and head.bias; random: head.weight and head.bias".
  std::string text() const;
  /// Returns "2 missing (a and b), 1 unexpected (c)"; empty if everything fits.
  std::string misfits() const;
};

/// Loads a model from transformers, timm, OpenAI or open_clip, under any of the naming schemes in
/// weight_names.h. The target is the tower and the projection of an ImageClassifier, both towers of
/// a ClipNetwork, or a TextEncoder. Fused projections are split, separate ones joined, OpenAI's
/// projections are transposed, position embeddings are resized (the class token's is 0 if the file
/// has none), and values are converted to the weight's type. Heads and adapters are not loaded,
/// except for a CLIP class head called make_classifier in the file. Prefixes that programs put
/// before every name (wrapper_of()) are removed. Tensors are copied piece by piece; only the few
/// that cannot be copied in pieces are first collected in memory:
///
///   PretrainedPlaces places(network, shapes, resize);
///   if (!places.report().fits()) refuse(places.report().misfits());
///   read_saved_weights(reference, sha256, places.sink());
///   if (!places.report().fits()) refuse(places.report().misfits());  // errors in the values
class PretrainedPlaces {
 public:
  /// Uses only the names and shapes of `saved`. `network` must outlive this object; it may be on
  /// the Meta device if only the report is needed. Throws runner::StageError if the names belong to
  /// no known layout.
  PretrainedPlaces(torch::nn::Module& network, const NamedTensors& saved, PositionResize resize);
  PretrainedPlaces(const PretrainedPlaces&) = delete;
  PretrainedPlaces& operator=(const PretrainedPlaces&) = delete;
  ~PretrainedPlaces();

  const PretrainedReport& report() const { return report_; }
  /// Returns a sink that writes the tensors it receives to the network, but allocates no memory for
  /// weights that have none. The report must satisfy fits(), and this object must outlive the sink.
  WeightSink sink();

 private:
  class Source;
  struct Place;
  void take(const WeightPiece& piece);
  bool take_class_head(const std::string& ours, const at::Tensor& weight, Source& source);
  void take_logit_bias(const at::Tensor& weight, Source& source);

  PretrainedReport report_;
  PositionResize resize_;
  std::vector<Place> places_;
  std::vector<at::Tensor> zeros_;       // weights that this layout lacks, which are set to 0
  std::string bias_that_must_be_zero_;  // a tensor that has no place; empty: none
};

/// Like PretrainedPlaces, but loads tensors that are already in memory. Loads nothing if any of
/// them does not match.
PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved,
                                 PositionResize resize);

}  // namespace stages
