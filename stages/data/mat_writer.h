#pragma once

#include <span>
#include <string>

#include "stages/data/mat_file.h"

namespace stages {

// Plain MAT-files of version 5. Same contents, same bytes: their head tells no time.

/// These matrices, of the smallest class that holds their numbers, which are 0 to 65535.
std::string mat_file(std::span<const MatMatrix> matrices);

/// A cell array: one row of texts, which are UTF-8.
std::string mat_texts_file(const std::string& name, std::span<const std::string> texts);

/// A struct array: one row of records. Numbers are 0 to 65535, of MATLAB's usual class, double; a cell that is neither
/// number nor text is an empty matrix. Names of fields have at most 31 bytes.
std::string mat_records_file(const std::string& name, const MatRecords& records);

}  // namespace stages
