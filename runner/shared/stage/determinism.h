#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// What to do about a tensor operation that may give different bits when repeated.
enum class Determinism {
  kStrict,  ///< the operation fails
  kWarn,    ///< the operation runs, with one warning
  kOff,     ///< the operation runs, and faster nondeterministic ones are allowed
};

/// Converts to and from "strict", "warn" or "off", as in recipes.
std::string_view name(Determinism determinism);
std::optional<Determinism> determinism_named(std::string_view name);

/// Returns the operation that LibTorch, in the message `text`, rejects or warns about because it
/// has no deterministic implementation; nullopt for any other message.
std::optional<std::string> nondeterministic_operation(std::string_view text);

/// Returns "the operation 'put_' has no deterministic implementation".
std::string nondeterminism_text(const std::string& operation);

}  // namespace runner
