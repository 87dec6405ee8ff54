#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// How to treat a tensor operation that may give different bits when repeated.
enum class Determinism {
  kStrict,  ///< it fails
  kWarn,    ///< it runs, with one warning
  kOff,     ///< it runs, and faster nondeterministic operations are allowed
};

/// "strict", "warn" or "off", as in recipes.
std::string_view name(Determinism determinism);
std::optional<Determinism> determinism_named(std::string_view name);

/// The operation that LibTorch rejects or warns about in `text` because it has no deterministic
/// implementation; nullopt if `text` is about something else.
std::optional<std::string> nondeterministic_operation(std::string_view text);

/// "the operation 'put_' has no deterministic form".
std::string nondeterminism_text(const std::string& operation);

}  // namespace runner
