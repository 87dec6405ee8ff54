#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/division.h"
#include "stages/data/image_list.h"

namespace stages {

/// What of `all` is in no part of `divided`.
ImageList left_out(const ImageList& all, const ImageList& divided);

/// How `divided` is divided; what `all` has besides is in no part. `drawn_by` are the options that
/// this follows from.
Division division_of(const ImageList& divided, const ImageList& all, std::string drawn_by);

/// Are those images that are in a part in the same one, in both?
bool has_same_parts(const Division& one, const Division& other);

/// The division that this node recorded in the run that goes on, is done again or is evaluated, as
/// `context` names it, where the images are to be divided so instead of as `now` says. nullopt:
/// there is none, or none of these images and options, or it is the same. Says how many images are
/// new since then. Throws runner::StageError at /root where images of it are not there any more,
/// and where it was not recorded although the node of a resumed run had been divided `by_chance`;
/// where changes are accepted it says so, and what is missing is not in the result.
std::optional<Division> division_to_keep(const Division& now, bool by_chance,
                                         runner::RunContext& context);

/// Leaves in the list only what `division` has: images, classes, and what captions can say of them.
void keep_only(ImageList& list, const Division& division);

/// The list divided so; what is in no part is left out. Each part keeps the list's order.
ImageList divided_as(const ImageList& list, const Division& division);

/// The parts of few-shot learning: a list each, with classes of its own, of which only that part is
/// used.
using FewShotLists = std::array<std::shared_ptr<const ImageList>, kSplitParts>;

/// `spare` is what there is besides, or in one of them.
Division division_of(const FewShotLists& lists, const FewShotLists& spare, std::string drawn_by);

/// What all lists have, divided so; what is in no part is left out. Each part is sorted by label
/// and name.
FewShotLists divided_as(const FewShotLists& lists, const FewShotLists& spare,
                        const Division& division);

}  // namespace stages
