#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/stage_error.h"

using enum runner::ErrorCode;  // so that codes need no prefix

/// An error that a test expects: `facts` are texts that only the message or its advice contains,
/// such as a file or a number. The wording is tested by tests/cases.
struct Refusal {
  runner::ErrorCode code{};
  std::string pointer;
  std::vector<std::string> facts = {};
};

/// The errors of `act`: those of the Result that it returns, or those that it throws.
template <typename Act>
runner::Diagnostics refusals_of(const Act& act) {
  runner::Diagnostics found;
  const auto add = [&](const runner::StageError& error) {
    found.push_back({error.code, {}, error.stage + error.option, error.what(), error.help});
  };
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Act>>) {
      act();
    } else {
      auto&& made = act();
      if constexpr (std::is_convertible_v<decltype(made), const runner::Diagnostics&>) found = made;
      else if constexpr (requires { made.errors(); }) found = made ? found : made.errors();
    }
  } catch (const runner::StageErrors& several) {
    for (const runner::StageError& error : several.all) add(error);
  } catch (const runner::StageError& error) {
    add(error);
  }
  return found;
}

inline testing::AssertionResult are_refused(const runner::Diagnostics& found,
                                            const std::vector<Refusal>& expected) {
  bool is_as_expected = found.size() == expected.size();
  for (std::size_t i = 0; is_as_expected && i < found.size(); ++i) {
    is_as_expected = found[i].code == expected[i].code && found[i].pointer == expected[i].pointer;
    for (const std::string& fact : expected[i].facts)
      is_as_expected &= (found[i].message + "\n" + found[i].help).find(fact) != std::string::npos;
  }
  if (is_as_expected) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure() << "expected:";
  for (const auto& [code, pointer, facts] : expected) {
    failure << "\n  " << runner::name(code) << " " << pointer << ":";
    for (const std::string& fact : facts) failure << " \"" << fact << '"';
  }
  failure << "\nfound" << (found.empty() ? " none" : ":");
  for (const runner::Diagnostic& error : found) {
    failure << "\n  " << runner::name(error.code) << " " << error.pointer << ": " << error.message
            << " (" << error.help << ")";
  }
  return failure;
}

/// Expects `expression` to fail with one error: EXPECT_REFUSED(read(file), kMissingFile, "/root",
/// "a.csv"). Facts follow the pointer.
#define EXPECT_REFUSED(expression, code, pointer, ...) \
  EXPECT_ALL_REFUSED(expression, {code, pointer __VA_OPT__(, {__VA_ARGS__})})

/// Expects several errors, in order: EXPECT_ALL_REFUSED(read(file), {kMissingFile, "/root",
/// {"a.csv"}}, {kMissingImage, "/root"}).
#define EXPECT_ALL_REFUSED(expression, ...)                                              \
  EXPECT_TRUE(are_refused(refusals_of([&]() -> decltype(auto) { return (expression); }), \
                          std::vector<Refusal>{__VA_ARGS__}))
