#include "runner/parent/python/trusted_hooks.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "runner/parent/python/allowed_code.h"
#include "runner/shared/disk/digest.h"

namespace runner {
namespace {

/// Adds the locations of the strings in `value`, one for each source.
void add_places(const Value& value, std::vector<Location>& places) {
  if (const auto* map = value.map())
    for (const Entry& entry : *map) add_places(entry.value, places);
  if (const auto* list = value.list())
    for (const Value& item : *list) add_places(item, places);
  const bool is_known =
      std::ranges::find(places, value.where.source, &Location::source) != places.end();
  if (value.text() && !is_known) places.push_back(value.where);
}

}  // namespace

bool has_hooks(const Value& recipe) {
  std::vector<Location> places;
  if (const Value* const hooks = recipe.find("hooks")) add_places(*hooks, places);
  return !places.empty();
}

Diagnostics untrusted_hooks(const Value& recipe, std::span<const Override> overrides,
                            const TrustedCode& trusted) {
  std::vector<Location> places;
  if (const Value* const hooks = recipe.find("hooks")) add_places(*hooks, places);
  Diagnostics errors;
  for (const Location& place : places) {
    const auto wrote = [&](const Override& one) { return one.where.source == place.source; };
    if (place.source && std::ranges::any_of(overrides, wrote)) continue;
    const std::filesystem::path file = place.source ? place.source->name : "";
    std::error_code error;
    const auto real = std::filesystem::canonical(file, error);
    const auto state = error || !place.source ? TrustedCode::State::kNever
                                              : trusted.state(real, sha256(place.source->contents));
    if (state == TrustedCode::State::kTrusted) continue;
    errors.push_back(
        {ErrorCode::kUntrustedCode, place, "/hooks",
         "'" + file.string() + "' sets commands to run, but " +
             (state == TrustedCode::State::kChanged ? "it has changed since you trusted it"
                                                    : "it was never trusted"),
         "read it, then allow it: " + trust_command(file) + "; or leave the commands out: ~hooks"});
  }
  return errors;
}

}  // namespace runner
