#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/parity/recorded_case.h"

/// Checks that `actual` is within `relative` of `expected`. Differences below `floor` are ignored,
/// since a number that is zero in exact arithmetic is only rounding error.
inline void expect_close(double actual, double expected, const std::string& what,
                         double relative = 1e-12, double floor = 1e-14) {
  EXPECT_NEAR(actual, expected, std::max(relative * std::abs(expected), floor)) << what;
}

/// Checks tensors, relative to the largest number in `expected`, or to 1 if all are smaller.
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected,
                         const std::string& what, double relative = 1e-12) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double size = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LE((actual - expected).abs().max().item<double>(), relative * size) << what;
}

/// Converts nested lists of numbers to a float64 tensor.
inline at::Tensor tensor_of(const nlohmann::json& values) {
  if (values.empty() || !values.front().is_array())
    return torch::tensor(values.get<std::vector<double>>(), at::kDouble);
  std::vector<at::Tensor> parts;
  for (const nlohmann::json& part : values) parts.push_back(tensor_of(part));
  return torch::stack(parts);
}

inline at::Tensor integers_of(const nlohmann::json& values) {
  return torch::tensor(values.get<std::vector<std::int64_t>>());
}

/// The keyword arguments passed to a library. An argument that is never read is a failure: the case
/// requires something that is not compared.
class Arguments {
 public:
  Arguments(const RecordedCase& recorded, std::string of)
      : given_(recorded.json.at("case").at("kwargs")), of_(std::move(of)) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() {
    for (const auto& [name, value] : given_.items()) {
      if (!read_.contains(name))
        ADD_FAILURE() << "no comparison supports the argument '" << name << "' of " << of_;
    }
  }

  bool has(const std::string& name) const { return given_.contains(name); }
  template <typename T>
  T get(const std::string& name) {
    read_.insert(name);
    return given_.at(name).get<T>();
  }
  template <typename T>
  T get(const std::string& name, T without) {
    read_.insert(name);
    return given_.value(name, without);
  }

 private:
  const nlohmann::json given_;
  const std::string of_;
  std::set<std::string> read_;
};

/// Matches cases that have this `kind` in "case".
inline CaseKind number_kind(std::string suite, std::string kind,
                            void (*compare)(const RecordedCase&)) {
  return {
      std::move(suite),
      [kind = std::move(kind)](const RecordedCase& recorded) { return kind_of(recorded) == kind; },
      compare};
}
