#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/safetensors_fixture.h"

/// A result recorded with another library: a folder with a case.json, or a JSON file.
struct RecordedCase {
  std::filesystem::path path;  ///< the folder or file
  nlohmann::json json;
};

/// How to compare one kind of case; `compare` fails through gtest assertions.
struct CaseKind {
  std::string name;  ///< of the test suite
  std::function<bool(const RecordedCase&)> matches;
  std::function<void(const RecordedCase&)> compare;
};

/// The kinds of each file in tests/parity, in the order in which they are matched.
std::vector<CaseKind> model_cases();
std::vector<CaseKind> clip_cases();
std::vector<CaseKind> fullsize_cases();
std::vector<CaseKind> backbone_cases();
std::vector<CaseKind> dinov2_cases();
std::vector<CaseKind> drop_path_cases();
std::vector<CaseKind> layer_decay_cases();
std::vector<CaseKind> lora_cases();
std::vector<CaseKind> lora_variant_cases();
std::vector<CaseKind> image_cases();
std::vector<CaseKind> schedule_cases();
std::vector<CaseKind> optimizer_cases();
std::vector<CaseKind> quantizer_cases();
std::vector<CaseKind> loss_cases();
std::vector<CaseKind> metric_cases();
std::vector<CaseKind> tokenizer_cases();
std::vector<CaseKind> picture_cases();
std::vector<CaseKind> augmentation_cases();
std::vector<CaseKind> retrieval_cases();
std::vector<CaseKind> logistic_cases();

/// The kind that a case declares, or else the family or model that it was made with; empty if it
/// declares neither.
std::string kind_of(const RecordedCase& recorded);

using RecordedTensors = std::map<std::string, at::Tensor>;

inline nlohmann::json json_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// The pseudo-random numbers of the recorded cases: uniform in [-1, 1), as a function of (seed,
/// index, position).
at::Tensor hash_uniform(std::uint64_t seed, std::uint64_t index, at::IntArrayRef shape);

/// The streams of hash_uniform().
inline constexpr std::uint64_t kPixelStream = 1000000, kProbeStream = 2000000;

/// The recorded tensors of one precision, with the prefix "f64." or "f32.". Keeps track of which
/// have been compared.
class Expectation {
 public:
  Expectation(RecordedTensors tensors, at::ScalarType type)
      : Expectation(std::move(tensors), type, type == at::kDouble ? 1e-10 : 1e-4) {}
  Expectation(RecordedTensors tensors, at::ScalarType type, double tolerance)
      : tensors_(std::move(tensors)), type_(type), tolerance_(tolerance) {}

  at::ScalarType type() const { return type_; }
  bool has(const std::string& name) const { return tensors_.contains(key(name)); }
  at::Tensor operator[](const std::string& name) const { return tensors_.at(key(name)); }
  /// Checks that the largest difference from `actual` is within the tolerance times the largest
  /// value: by default 1e-10 in float64 and 1e-4 in float32. If the largest value is below 1, the
  /// difference itself is compared, since what is zero in exact arithmetic is only rounding error.
  void expect_near(const std::string& name, const at::Tensor& actual);
  /// The names recorded in this precision that have not been compared.
  std::vector<std::string> uncompared() const;

 private:
  std::string key(const std::string& name) const {
    return (type_ == at::kDouble ? "f64." : "f32.") + name;
  }
  RecordedTensors tensors_;
  at::ScalarType type_;
  double tolerance_;
  std::map<std::string, int> compared_;
};
