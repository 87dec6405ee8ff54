#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"
#include "stages/data/captions.h"
#include "stages/data/image.h"

namespace stages {

enum class Part : std::uint8_t { kTrain, kValidation, kTest };
inline constexpr std::size_t kSplitParts = 3;

/// "train", "validation" or "test".
std::string_view name(Part part);

/// A file and its class.
struct ImageFile {
  std::string name;  ///< below the root: "iris/image_0401.jpg"
  std::int64_t label = 0;
  std::optional<Box> box =
      {};  ///< what of its picture counts, as annotated: it may reach over the edges
  std::int64_t facts = 0;  ///< what captions can say of it: a position in ImageList::facts
  /// Pictures of which this is equal belong together, in one part: those of a patient or, where
  /// `names_patient` is false, copies of one picture. Empty: nothing is known.
  std::string patient = {};
  bool names_patient = false;  ///< its name tells the patient
};

/// The image files below a root and what they show: none has been opened.
struct ImageList {
  std::filesystem::path root;
  std::vector<std::string> classes;      ///< names; a label is a position here
  std::vector<std::string> class_words;  ///< what texts call the classes; empty: by their names
  std::array<std::vector<ImageFile>, kSplitParts> parts;  ///< their order is that of the samples
  std::string annotations;           ///< SHA-256 of the files that say all this; empty: folders do
  bool divided = false;              ///< root has folders of parts: train, validation, test
  std::vector<std::string> ignored;  ///< folders beside those of parts
  runner::NotTaken not_taken;        ///< what else lies there
  std::vector<std::string> notes;    ///< what else who uses it is to be told, a line each
  std::optional<runner::Diagnostic> no_train,
      no_test;        ///< why a part has no images; nullopt: no reason
  ImageFacts facts;   ///< what captions can say
  Captions captions;  ///< none where none are wanted

  std::vector<ImageFile>& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  const std::vector<ImageFile>& operator[](Part part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

/// Lets captions say {name} of each image: what `names` calls its class.
void add_names(ImageList& list, std::vector<std::string> names);

/// Does a path that somebody has written lead down from a folder, and to the name of an image?
bool is_image_path(std::string_view path);

/// Lists root/CLASS/IMAGE, or root/PART/CLASS/IMAGE with the usual names of parts
/// (runner::part_of_folder()), where IMAGE has the name of one (runner/shared/text/image_names.h);
/// classes and files are sorted bytewise, and all are in the first part where the list is not
/// `divided`. Without a folder train the classes are those of the other parts, for who only tests.
/// Everything wrong is reported at once, without a place: a missing folder, no classes, classes
/// without images, a class of validation or test that train lacks, and, unless `allow_outside`,
/// links out of root.
runner::Result<ImageList> list_images(const std::filesystem::path& root, bool allow_outside);

/// Lists folder/CLASS/IMAGE, all in the first part, whatever the classes are called; their names
/// are below `folder`, and links may lead anywhere below `bounds`, which holds it. Where `only`
/// names classes, no other folder is looked at; those that are not there are left out. Reports as
/// list_images() does.
runner::Result<ImageList> list_class_folders(const std::filesystem::path& folder,
                                             const std::filesystem::path& bounds,
                                             bool allow_outside,
                                             const std::set<std::string>& only = {});

/// A SHA-256 of the files' names, labels and contents, of the classes' names and of the
/// annotations, in hexadecimal: another one where any of them, or their order, is another. A file
/// is read once (FileDigests); of more than kLargestContents the states of the files stand for
/// their contents.
std::string fingerprint(const ImageList& list);

/// Shares of each class; they add up to at most 1.
struct SplitOptions {
  double train = 0.8, validation = 0, test = 0.2;
};

/// Divides the training images of each class among the parts, at random as a function of `seed` and
/// their names, by largest remainder; they keep their order, after what a part has already. Each
/// part with a share gets an image of every class that has enough of them, train before test before
/// validation. Images of one patient stay together: patients are divided as images are, each
/// counted once, in the highest class that one of theirs has.
///
/// The images of a class are ranked by a hash of (seed, name), and the parts take theirs from that
/// ranking one after the other: train, validation, test. So the shares are exact, and an image that
/// is added or removed moves no image of another class, and of its own class only a few, which
/// stand where one part ends and the next begins. That these do not move either, once a run has
/// begun, its record of the division sees to (stages/artifact/division.h).
void split(ImageList& list, const SplitOptions& options, std::uint64_t seed);

}  // namespace stages
