#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace stages {

/// Which tensors each file of a model in shards holds, as its index (model.safetensors.index.json) has it: their names
/// by the file's. All the files lie beside the index.
using WeightShards = std::map<std::string, std::set<std::string>>;

/// Reads an index. Throws std::invalid_argument saying what is wrong with it, in half a sentence.
WeightShards parse_weight_shards(std::string_view text);

}  // namespace stages
