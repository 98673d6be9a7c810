"""``foveal models``."""

from foveal.cli.common import Json, print_json, print_table


def models(json: Json = False) -> None:
    """List the models that have a spec."""
    from foveal.preprocessor import Preprocessor
    from foveal.spec import names
    from foveal.spec.find import spec_path

    specs = [Preprocessor.from_spec(name).spec for name in names()]
    if json:
        print_json(
            [
                {
                    "name": spec.name,
                    "references": list(spec.image.references),
                    "dtype": spec.primary.dtype,
                    "tensors": [tensor.name for tensor in spec.tensors],
                    "model_types": list(spec.match.model_type),
                    "image_processor_types": list(spec.match.image_processor_type),
                    "source": list(spec.source),
                    "limits": {"images": spec.limits.images},
                    "engines": list(spec.wire.engines),
                    "path": str(spec_path(spec.name)),
                }
                for spec in specs
            ]
        )
        return
    rows = [
        (
            spec.name,
            ", ".join(spec.match.image_processor_type),
            ", ".join(spec.image.references),
            ", ".join(tensor.name for tensor in spec.tensors),
            spec.primary.dtype,
        )
        for spec in specs
    ]
    print_table(("model", "image processor", "references", "tensors", "dtype"), rows)
