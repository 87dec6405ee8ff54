#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/division.h"
#include "stages/data/image_list.h"

namespace stages {

/// The images of `all` that are in no part of `divided`.
ImageList left_out(const ImageList& all, const ImageList& divided);

/// The division of `divided`; other images of `all` are in no part. `drawn_by` are the options that
/// determine it.
Division division_of(const ImageList& divided, const ImageList& all, std::string drawn_by);

/// Is every image that is in a part of both divisions in the same part?
bool has_same_parts(const Division& one, const Division& other);

/// The division that this node recorded in the run that is resumed, repeated or evaluated, named by
/// `context`, if the images should be divided as it says and not as `now` says. nullopt: there is
/// no record, or it has other images and options, or it is the same. Reports how many images are
/// new since then. Throws runner::StageError at /root if images of the record are missing now, or
/// if there is no record although the resumed run's node was divided `by_chance`. If changes are
/// accepted, it reports them instead, and the result omits the missing images.
std::optional<Division> division_to_keep(const Division& now, bool by_chance,
                                         runner::RunContext& context);

/// Keeps in the list only what `division` has: images, classes, and facts for captions.
void keep_only(ImageList& list, const Division& division);

/// The list divided as `division` says; images in no part are left out. Each part keeps the list's
/// order.
ImageList divided_as(const ImageList& list, const Division& division);

/// The parts of few-shot learning: a list each, with its own classes, of which only that part is
/// used.
using FewShotLists = std::array<std::shared_ptr<const ImageList>, kSplitParts>;

/// `spare` has the other images, or is one of the lists.
Division division_of(const FewShotLists& lists, const FewShotLists& spare, std::string drawn_by);

/// The images of all lists, divided as `division` says; images in no part are left out. Each part
/// is sorted by label and name.
FewShotLists divided_as(const FewShotLists& lists, const FewShotLists& spare,
                        const Division& division);

}  // namespace stages
