"""Files of TensorFlow records, written by those who know the format from elsewhere: TensorBoard's writer, and protobuf."""

import io

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.summary.writer.record_writer import RecordWriter


def make_example():
    """The message class ``Example`` of TensorFlow, from its published definition."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        entry = file.message_type.add(name=name)
        for field_name, number, kind, label, type_name in fields:
            entry.field.add(name=field_name, number=number, type=kind, label=label, type_name=type_name or None)
        return entry

    many, one = kinds.LABEL_REPEATED, kinds.LABEL_OPTIONAL
    message("BytesList", ("value", 1, kinds.TYPE_BYTES, many, ""))
    message("FloatList", ("value", 1, kinds.TYPE_FLOAT, many, ""))
    message("Int64List", ("value", 1, kinds.TYPE_INT64, many, ""))
    feature = message(
        "Feature",
        ("bytes_list", 1, kinds.TYPE_MESSAGE, one, ".t.BytesList"),
        ("float_list", 2, kinds.TYPE_MESSAGE, one, ".t.FloatList"),
        ("int64_list", 3, kinds.TYPE_MESSAGE, one, ".t.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message("Features", ("feature", 1, kinds.TYPE_MESSAGE, many, ".t.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, label=one, type_name=".t.Feature")
    message("Example", ("features", 1, kinds.TYPE_MESSAGE, one, ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


Example = make_example()


def example(**features):
    """An ``Example`` as bytes: lists of bytes, floats or integers by name."""
    message = Example()
    for name, values in features.items():
        entry = message.features.feature[name]
        kind = {bytes: "bytes_list", float: "float_list", int: "int64_list"}[type(values[0])]
        getattr(entry, kind).value.extend(values)
    return message.SerializeToString()


def write(path, *contents):
    stream = io.BytesIO()
    writer = RecordWriter(stream)
    for content in contents:
        writer.write(content)
    path.write_bytes(stream.getvalue())
    return path
