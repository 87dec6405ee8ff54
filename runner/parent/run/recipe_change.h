#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Checks whether a run that began with the recipe `before` can continue with `after`, both
/// resolved. Returns an error for every changed option that must not change or, if `force` is
/// false, that may change only with `force` (x-resume in the schemas). A secret missing from the
/// record may be supplied again.
Diagnostics check_change(const Value& before, const Value& after, bool force,
                         const SchemaSet& schemas);

/// Checks whether the recipe `after` can evaluate a network that a run trained with `before`, both
/// resolved. Returns an error for every changed option of a model or training stage, and for a
/// changed seed. A secret missing from the record may be supplied again.
Diagnostics check_change_of_trained(const Value& before, const Value& after);

}  // namespace runner
