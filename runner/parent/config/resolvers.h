#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/error_code.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What a resolver has access to: the environment, the time, and the document that contains its
/// interpolation.
class ResolverContext {
 public:
  virtual std::optional<std::string> environment(const std::string& name) const = 0;
  virtual std::chrono::system_clock::time_point now() const = 0;

  /// The value of a key, as ${key} would return it. `value` is empty if there is none. After an
  /// error, which has been recorded, `failed` is true.
  struct Selection {
    std::optional<Value> value = {};
    bool failed = false;
  };
  virtual Selection select(const std::string& key) = 0;

  /// Returns `written` with the interpolations in its strings resolved. nullopt after an error,
  /// which has been recorded.
  virtual std::optional<Value> evaluate(const Value& written) = 0;

  /// Records an error or a warning about this interpolation.
  virtual void fail(ErrorCode code, const std::string& message, const std::string& help) = 0;
  virtual void warn(ErrorCode code, const std::string& message, const std::string& help) = 0;

  /// Returns `text` in quotes for a message; "its argument" if it came from a secret.
  virtual std::string shown(const Value& text) const = 0;

 protected:
  ~ResolverContext() = default;
};

/// A resolver, called as ${name:argument,argument}.
struct Resolver {
  std::string_view name;
  std::size_t least, most;  ///< number of arguments
  std::string_view usage;   ///< "${oc.env:NAME} or ${oc.env:NAME,default}"
  /// Evaluates the resolver; its arguments have already been evaluated. nullopt after an error,
  /// which has been recorded.
  std::optional<Value> (*call)(ResolverContext& context, std::vector<Value>& arguments);
};

/// All resolvers.
std::span<const Resolver> resolvers();

/// The arithmetic resolvers: ${add:1,2}, ${sub:a,b}, ${mul:${train.epochs},0.1}, ${div:a,b},
/// ${int:0.9}. Arguments are numbers, or strings that parse as numbers, such as ${oc.env:N}.
/// Integers yield an integer, except in a division with a remainder; int truncates. Non-numbers,
/// overflow and division by zero are errors.
std::optional<Value> add_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> subtract_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> multiply_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> divide_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> integer_part(ResolverContext& context, std::vector<Value>& arguments);

}  // namespace runner
