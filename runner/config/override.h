#pragma once

#include <optional>
#include <string>

#include "runner/config/edit.h"
#include "runner/config/sweep.h"
#include "runner/error/result.h"
#include "runner/value/value.h"

namespace runner {

enum class OverrideKind {
  kChange,    ///< key=value
  kAdd,       ///< +key=value
  kForceAdd,  ///< ++key=value
  kDelete,    ///< ~key or ~key=value
};

/// One command-line override, read. Its grammar is Hydra's, down to typed scalars, quotes and escapes.
struct Override {
  OverrideKind kind = OverrideKind::kChange;
  std::string key;  ///< as typed: "train.epochs" or, for a config group, "model/backbone"
  Location key_where;
  std::optional<std::string> package;  ///< what follows '@' in the key; empty for the root
  Location package_where = {};
  std::optional<Value> value;       ///< of a plain value; absent for ~key, and where there is `sweep` or `edit`
  std::optional<Sweep> sweep = {};  ///< several values, of which a run takes one: a,b or range(1,3)
  std::optional<Edit> edit = {};    ///< a change to the value that is there: append(x)
  std::string value_text = {};      ///< the value as typed
  Location where = {};              ///< the whole override
};

/// How messages show the prefix of a kind: "", "+", "++" or "~".
std::string_view prefix(OverrideKind kind);

/// Reads `source`, which holds one override: Hydra's grammar and a little more (override_value.h, override_key.h). An
/// empty key is refused, and so are sweeps inside lists, mappings and other sweeps.
Result<Override> parse_override(const SourceText& source);

/// What to say of an override that lists several values where one run is asked for.
Diagnostic needs_multirun(const Override& override);

}  // namespace runner
