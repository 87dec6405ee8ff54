#pragma once

#include "runner/config/compose.h"
#include "runner/diagnostic.h"
#include "runner/value.h"

namespace runner {

/// `recipe` with every interpolation resolved:
///
///   ${a.b} ${a[0]} ${a[b]}   a key from the root; ${.x} from the mapping or list that holds it, ${..x} one further out
///   ${a.${b}}                the inner one first
///   ${oc.env:NAME,default}   an environment variable, always text
///   \${                      a literal ${
///
/// Alone it keeps the type of what it names, a mapping or list even; inside a longer text it becomes text and a
/// container is an error. A key that is not there is read from the schemas' defaults. ${item.x} stays as it is, and so
/// does everything below `aliases`. Whatever comes from an environment variable named like a secret has
/// Value::secret_as set. All errors are added to `errors`, each where the interpolation is written; the value of
/// one that failed is null.
Value resolve_interpolations(const Value& recipe, const Declared& declared, const Environment& environment,
                             Diagnostics& errors);

}  // namespace runner
