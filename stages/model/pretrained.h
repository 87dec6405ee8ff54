#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/model/position_resize.h"
#include "stages/model/weight_names.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// What became of every tensor that a file of weights held, and of every weight that the network has.
struct PretrainedReport {
  WeightLayout layout = WeightLayout::kClip;
  std::int64_t taken = 0;                ///< weights of the network that now have the file's values
  std::vector<std::string> missing;      ///< names, as the file would have them, of weights that it lacks
  std::vector<std::string> unexpected;   ///< tensors that no part of such a model has
  std::vector<std::string> wrong_shape;  ///< "vit.layernorm.weight [48] for [64]"
  std::vector<std::string> left_out;     ///< tensors of parts that this network has not: a text tower, another head
  std::vector<std::string> random;       ///< weights that no file of this layout has: the head
  std::int64_t positions_before = 0, positions_after = 0;  ///< sides of the grid, where it was resized

  bool fits() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
  /// "152 weights of timm's ViT; position embeddings from 14 x 14 to 24 x 24; left out: head.weight, head.bias;
  /// random: head.weight, head.bias".
  std::string text() const;
  /// "2 missing (a, b), 1 unexpected (c)"; empty where all fits.
  std::string misfits() const;
};

/// Gives the tower and the projection of `network`, an ImageClassifier, the values of `saved`: the tensors of a model
/// of transformers, timm, OpenAI or open_clip, by whichever names they have (weight_names.h). Fused and separate
/// projections are cut and joined, OpenAI's projection is transposed, and position embeddings are resized. Everything
/// or nothing: where the report does not fit() the network is as before. A weight of the file's type and shape shares
/// its memory from then on: it must not be written in place. Throws runner::StageError where the names are of no layout
/// that is known.
PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved, PositionResize resize);

}  // namespace stages
