#include "stages/model/shrunken_tower.h"

namespace stages {
namespace {

constexpr std::int64_t kWidth = 8, kInnerWidth = 16, kHeads = 2, kSmallProjection = 6, kPatch = 4, kImage = 8;

}  // namespace

void shrink(VisionTowerOptions& tower, std::optional<std::int64_t>& image_size,
            std::optional<std::int64_t>& projection_dim) {
  tower.block.hidden_size = kWidth;
  tower.block.intermediate_size = kInnerWidth;
  tower.block.num_attention_heads = kHeads;
  tower.patch_size = kPatch;
  image_size.reset();
  if (projection_dim) projection_dim = kSmallProjection;
}

DatasetDescription shrunken_data(DatasetDescription data, std::int64_t width) {
  for (TensorSpec& tensor : data.tensors) {
    if (tensor.name == "image" && tensor.shape.size() == 3) tensor.shape = {tensor.shape[0], kImage, kImage};
    if (tensor.name == "features") tensor.shape = {width};
  }
  if (data.source) data.source = std::make_shared<const DatasetDescription>(shrunken_data(*data.source, width));
  return data;
}

}  // namespace stages
