#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// A tokenizer created by Python (retort_host/tokenizers.py).
class PythonTokenizer {
 public:
  /// Calls `entry` with `arguments`, a mapping, to create the tokenizer. Throws runner::StageError
  /// if Python fails.
  PythonTokenizer(const std::string& entry, const nlohmann::ordered_json& arguments);
  ~PythonTokenizer();
  PythonTokenizer(const PythonTokenizer&) = delete;
  PythonTokenizer& operator=(const PythonTokenizer&) = delete;

  /// Returns the tokens of all `texts`, which must be UTF-8, in one call of the tokenizer: (texts,
  /// length) int64 on the CPU, none of them negative. Throws runner::StageError if Python fails,
  /// draws random numbers, or returns anything else.
  at::Tensor tokens(const std::vector<std::string>& texts) const;

 private:
  const std::int64_t id_;
};

}  // namespace stages
