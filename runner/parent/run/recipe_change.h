#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Reasons not to continue a run that began with the recipe `before` with the recipe `after`, both
/// resolved: an error for every changed option whose change is refused, or needs `force` and does
/// not have it (x-resume in the schemas). A secret that the record does not hold may be given
/// again.
Diagnostics check_change(const Value& before, const Value& after, bool force,
                         const SchemaSet& schemas);

/// Reasons not to use the recipe `after` to evaluate what a run has trained with `before`, both
/// resolved: an error for every changed option of a model or a training, and for a changed seed. A
/// secret that the record does not hold may be given again.
Diagnostics check_change_of_trained(const Value& before, const Value& after);

}  // namespace runner
