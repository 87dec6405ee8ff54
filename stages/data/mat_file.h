#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// A matrix of whole numbers from a MAT-file, column after column.
struct MatMatrix {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values;
};

/// No MAT-file is read that is longer, or whose compressed parts are, taken together.
inline constexpr std::size_t kMaxMatBytes = std::size_t{64} << 20;

/// The variable `name` of a MAT-file of version 5 ("MAT-File Format", The MathWorks), compressed or plain: a real
/// matrix of any numeric class whose numbers are whole. Other variables may be of any kind. `file` is trusted in
/// nothing. Throws std::invalid_argument saying what is wrong, in half a sentence: "it ends within …".
MatMatrix read_mat(std::string_view file, std::string_view name);

/// A plain MAT-file with these matrices, of the smallest class that holds their numbers, which are 0 to 65535. Same
/// matrices, same bytes: its head tells no time.
std::string mat_file(std::span<const MatMatrix> matrices);

}  // namespace stages
