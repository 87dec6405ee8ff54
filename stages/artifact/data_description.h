#pragma once

#include <map>
#include <string>

#include "stages/artifact/dataset.h"

namespace stages {

/// What weights are to remember of the data that they were trained on, as texts for their file's metadata: "classes",
/// "tensors" and "transform", of a pair "pair_of", and "class_words" where texts call classes otherwise, each JSON. The
/// size is not among it.
std::map<std::string, std::string> describe_data(const DatasetDescription& data);

/// Reads what describe_data() wrote, beside other texts, wherever they come from. Throws std::runtime_error saying
/// what is wrong, in half a sentence: "its 'tensors' is not a list". The transform is handed on unread.
DatasetDescription described_data(const std::map<std::string, std::string>& about);

}  // namespace stages
