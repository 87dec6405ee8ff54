#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/division.h"
#include "stages/data/image_list.h"

namespace stages {

/// Returns the images of `all` that are in no part of `divided`.
ImageList left_out(const ImageList& all, const ImageList& divided);

/// Returns the division of `divided`; images that are only in `all` are in no part. `drawn_by`
/// describes the options that determine the division.
Division division_of(const ImageList& divided, const ImageList& all, std::string drawn_by);

/// True if both divisions assign the same images to the same parts, ignoring images that either of
/// them assigns to no part.
bool has_same_parts(const Division& one, const Division& other);

/// Returns the division that this node recorded in the run being resumed, repeated or evaluated
/// (given by `context`), if it applies and differs from `now`. Returns nullopt if there is no
/// record, if the record is for other images or options, or if the division is the same. Reports
/// which images have been added since then. Throws runner::StageError if recorded images are
/// missing (at /root), or if the resumed run has no record although it was divided `by_chance` (at
/// /split). If changes are accepted, reports them instead of throwing; the result then omits
/// missing images.
std::optional<Division> division_to_keep(const Division& now, bool by_chance,
                                         runner::RunContext& context);

/// Removes from the list all images, classes and caption facts that are not in `division`.
void keep_only(ImageList& list, const Division& division);

/// Returns the list divided according to `division`; images in no part are left out. Each part
/// keeps the list's order.
ImageList divided_as(const ImageList& list, const Division& division);

/// One list per part, for few-shot learning. Each part has its own classes, and only that part of
/// its list is used.
using FewShotLists = std::array<std::shared_ptr<const ImageList>, kSplitParts>;

/// Returns the division of few-shot `lists`. The images of `spare` that no list uses are in no
/// part; `spare` may have images of its own or be equal to `lists`.
Division division_of(const FewShotLists& lists, const FewShotLists& spare, std::string drawn_by);

/// Returns the images of all lists divided according to `division`; images in no part are left out.
/// Each part is sorted by label and name.
FewShotLists divided_as(const FewShotLists& lists, const FewShotLists& spare,
                        const Division& division);

}  // namespace stages
