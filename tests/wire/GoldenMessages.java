import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

/**
 * Prints what Kafka's own message classes write. Arguments: names such as FetchRequest. Each line is a JSON
 * object: name, version, variant, bytes (or "refused") and the values that were set. tests/wire/messages.py
 * says what the variants are; tests/wire/golden_messages.py makes the golden file of the lines.
 */
public final class GoldenMessages {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final HexFormat HEX = HexFormat.of();
    private static final int LONG = 130;
    private static final String[] LETTERS = {"a", "b\u00e9", "c\u20ac\ud834\udd1e"};

    private enum Variant { DEFAULT, NULL, FULL, LONG }

    /** An object of Kafka's, and the values in it. */
    private record Made(Object message, ObjectNode values) { }

    private final Variant variant;
    private final int version;
    private final Random random;
    private int count;
    private boolean hasLongArray;

    private GoldenMessages(Variant variant, int version, String label) {
        this.variant = variant;
        this.version = version;
        this.random = new Random(label.hashCode());
    }

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> kind;
            try {
                kind = Class.forName("org.apache.kafka.common.message." + name + "Data");
            } catch (ClassNotFoundException newer) {  // this release does not have it yet
                continue;
            }
            Schema[] schemas = schemas(kind);
            for (int version = 0; version < schemas.length; version++) {
                if (schemas[version] != null) {
                    print(name, kind, version);
                }
            }
        }
    }

    private static void print(String name, Class<?> kind, int version) throws Exception {
        GoldenMessages foreign = new GoldenMessages(Variant.FULL, version, name + version);
        for (Made made : foreign.withOneForeignField(kind)) {
            print(name, version, "foreign", made);
        }
        boolean isFlexible = present(kind, version).containsKey("_tagged_fields");
        for (Variant variant : Variant.values()) {
            if (variant == Variant.LONG && !isFlexible) {
                continue;
            }
            Made made = new GoldenMessages(variant, version, name + version).made(kind);
            boolean isRepeat = variant != Variant.DEFAULT && made.values.isEmpty();
            boolean isShort = variant == Variant.LONG && bytes(made.message, version).length() < 2 * LONG;
            if (!isRepeat && !isShort) {
                print(name, version, variant.name().toLowerCase(), made);
            }
        }
    }

    private static void print(String name, int version, String variant, Made made) throws Exception {
        ObjectNode line = JSON.objectNode();
        line.put("name", name).put("version", version).put("variant", variant);
        line.put("bytes", bytes(made.message, version)).set("values", made.values);
        System.out.println(new ObjectMapper().writeValueAsString(line));
    }

    private static String bytes(Object object, int version) {
        try {
            ApiMessage message = (ApiMessage) object;
            ObjectSerializationCache cache = new ObjectSerializationCache();
            MessageSizeAccumulator size = new MessageSizeAccumulator();
            message.addSize(size, cache, (short) version);
            ByteBuffer buffer = ByteBuffer.allocate(size.totalSize());
            message.write(new ByteBufferAccessor(buffer), cache, (short) version);
            return HEX.formatHex(buffer.array());
        } catch (UnsupportedVersionException refused) {
            return "refused";
        }
    }

    // --- whole messages ---

    private Made made(Class<?> kind) throws Exception {
        Made made = new Made(kind.getConstructor().newInstance(), JSON.objectNode());
        if (variant != Variant.DEFAULT) {
            for (Field field : fields(kind, version).values()) {
                boolean isNull = variant == Variant.NULL && field.type.isNullable();
                set(made, field.name, isNull ? null : this);
            }
        }
        return made;
    }

    /** Sets one field: to null, or to a value that `values` makes. */
    private static void set(Made made, String name, GoldenMessages values) throws Exception {
        Method setter = setter(made.message.getClass(), name);
        if (values == null) {
            setter.invoke(made.message, (Object) null);
            made.values.putNull(name);
            return;
        }
        Class<?> type = setter.getParameterTypes()[0];
        Object value;
        JsonNode json;
        if (Collection.class.isAssignableFrom(type)) {
            Collection<Object> list = newCollection(type);
            json = values.fill(list, element(setter));
            value = list;
        } else if (type == boolean.class) {
            value = !(Boolean) getter(made.message.getClass(), name).invoke(made.message);
            json = JSON.booleanNode((Boolean) value);
        } else {
            Map.Entry<Object, JsonNode> one = values.value(type);
            value = one.getKey();
            json = one.getValue();
        }
        try {
            setter.invoke(made.message, value);
        } catch (InvocationTargetException tooLarge) {  // for an unsigned number of 16 bits
            int smaller = (Integer) value & 0xffff;
            setter.invoke(made.message, smaller);
            json = JSON.numberNode(smaller);
        }
        made.values.set(name, json);
    }

    private ArrayNode fill(Collection<Object> list, Class<?> element) throws Exception {
        ArrayNode json = JSON.arrayNode();
        boolean isLong = variant == Variant.LONG && !hasLongArray;
        hasLongArray |= isLong;
        int length = isLong ? LONG : variant == Variant.NULL ? 1 : 2;
        for (int index = 0; index < length; index++) {
            Map.Entry<Object, JsonNode> one = isLong && index > 0 ? filler(element) : value(element);
            list.add(one.getKey());
            json.add(one.getValue());
        }
        return json;
    }

    /** One of many elements of a long array. */
    private Map.Entry<Object, JsonNode> filler(Class<?> type) throws Exception {
        if (isStruct(type)) {
            return entry(type.getConstructor().newInstance(), JSON.objectNode());
        }
        return type == String.class ? entry("a", JSON.textNode("a")) : value(type);
    }

    private Map.Entry<Object, JsonNode> value(Class<?> type) throws Exception {
        count++;
        if (type == byte.class || type == Byte.class) {
            byte value = (byte) (random.nextInt(127) + 1);
            return entry(value, JSON.numberNode(value));
        } else if (type == short.class || type == Short.class) {
            short value = (short) (random.nextInt(65535) - 32768);
            return entry(value, JSON.numberNode(value));
        } else if (type == int.class || type == Integer.class) {
            int value = random.nextInt() >> random.nextInt(24);
            return entry(value, JSON.numberNode(value));
        } else if (type == long.class || type == Long.class) {
            long value = random.nextLong() >> random.nextInt(48);
            return entry(value, JSON.numberNode(value));
        } else if (type == double.class) {
            double value = random.nextInt() / 8.0;
            return entry(value, JSON.numberNode(value));
        } else if (type == String.class) {
            String value = LETTERS[count % LETTERS.length] + count;
            value = variant == Variant.LONG ? value.repeat(LONG / value.length() + 1) : value;
            return entry(value, JSON.textNode(value));
        } else if (type == Uuid.class) {
            Uuid value = new Uuid(random.nextLong(), random.nextLong());
            byte[] bytes = ByteBuffer.allocate(16).putLong(value.getMostSignificantBits())
                .putLong(value.getLeastSignificantBits()).array();
            return entry(value, JSON.textNode(HEX.formatHex(bytes)));
        } else if (isStruct(type)) {
            Made made = made(type);
            return entry(made.message, made.values);
        }
        byte[] bytes = new byte[variant == Variant.LONG ? LONG : 5];
        random.nextBytes(bytes);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Object value = type == byte[].class ? bytes
            : type == ByteBuffer.class ? buffer : records(buffer);
        return entry(value, JSON.textNode(HEX.formatHex(bytes)));
    }

    /** Records of Kafka's class, whose package is another one since 4.4. */
    private static Object records(ByteBuffer buffer) throws Exception {
        for (String place : new String[] {"record.internal", "record"}) {
            try {
                Class<?> kind = Class.forName("org.apache.kafka.common." + place + ".MemoryRecords");
                return kind.getMethod("readableRecords", ByteBuffer.class).invoke(null, buffer);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("no MemoryRecords");
    }

    // --- messages with one field that the version lacks ---

    private List<Made> withOneForeignField(Class<?> kind) throws Exception {
        List<Made> all = new ArrayList<>();
        Map<String, Field> present = fields(kind, version);
        for (String name : everywhere(kind)) {
            Method setter = setter(kind, name);
            Class<?> type = setter.getParameterTypes()[0];
            boolean isList = Collection.class.isAssignableFrom(type);
            Class<?> inner = isList ? element(setter) : type;
            if (!present.containsKey(name)) {
                Made made = new Made(kind.getConstructor().newInstance(), JSON.objectNode());
                if (isList) {
                    put(made, name, setter, isStruct(inner) ? filler(inner) : value(inner));
                } else {
                    set(made, name, this);
                }
                all.add(made);
            } else if (isStruct(inner)) {
                for (Made part : withOneForeignField(inner)) {
                    Made made = new Made(kind.getConstructor().newInstance(), JSON.objectNode());
                    put(made, name, setter, entry(part.message, part.values));
                    all.add(made);
                }
            }
        }
        return all;
    }

    /** Sets a field to `one`, or to the list of it. */
    private static void put(Made made, String name, Method setter, Map.Entry<Object, JsonNode> one)
        throws Exception {
        Class<?> type = setter.getParameterTypes()[0];
        if (Collection.class.isAssignableFrom(type)) {
            Collection<Object> list = newCollection(type);
            list.add(one.getKey());
            setter.invoke(made.message, list);
            made.values.set(name, JSON.arrayNode().add(one.getValue()));
        } else {
            setter.invoke(made.message, one.getKey());
            made.values.set(name, one.getValue());
        }
    }

    private static List<String> everywhere(Class<?> kind) throws Exception {
        Map<String, Boolean> names = new LinkedHashMap<>();
        for (int version = 0; version < schemas(kind).length; version++) {
            fields(kind, version).keySet().forEach(name -> names.put(name, true));
        }
        return new ArrayList<>(names.keySet());
    }

    // --- what the classes tell about themselves ---

    private static Schema[] schemas(Class<?> kind) throws Exception {
        return (Schema[]) kind.getField("SCHEMAS").get(null);
    }

    private static Map<String, Field> present(Class<?> kind, int version) throws Exception {
        Map<String, Field> present = new LinkedHashMap<>();
        Schema[] schemas = schemas(kind);
        if (version < schemas.length && schemas[version] != null) {
            for (var bound : schemas[version].fields()) {
                present.put(bound.def.name, bound.def);
            }
        }
        return present;
    }

    /** The fields of a version by name, the tagged ones last. */
    private static Map<String, Field> fields(Class<?> kind, int version) throws Exception {
        Map<String, Field> fields = present(kind, version);
        Field tagged = fields.remove("_tagged_fields");
        if (tagged != null) {
            var inner = TaggedFields.class.getDeclaredField("fields");
            inner.setAccessible(true);
            for (Object field : ((Map<?, ?>) inner.get(tagged.type)).values()) {
                fields.put(((Field) field).name, (Field) field);
            }
        }
        return fields;
    }

    private static Method setter(Class<?> kind, String name) {
        return method(kind, "set" + name, 1);
    }

    private static Method getter(Class<?> kind, String name) {
        return method(kind, name, 0);
    }

    private static Method method(Class<?> kind, String name, int parameters) {
        for (Method method : kind.getMethods()) {
            boolean isMeant = method.getName().equalsIgnoreCase(name.replace("_", ""));
            if (isMeant && method.getParameterCount() == parameters) {
                return method;
            }
        }
        throw new IllegalArgumentException(kind + " has no " + name);
    }

    private static Class<?> element(Method setter) {
        Type type = setter.getGenericParameterTypes()[0];
        if (type instanceof Class<?> collection) {
            type = collection.getGenericSuperclass();
        }
        return (Class<?>) ((ParameterizedType) type).getActualTypeArguments()[0];
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> newCollection(Class<?> type) throws Exception {
        Object made = type.isInterface() ? new ArrayList<>() : type.getConstructor().newInstance();
        return (Collection<Object>) made;
    }

    private static boolean isStruct(Class<?> type) {
        return type.getName().startsWith("org.apache.kafka.common.message.");
    }

    private static Map.Entry<Object, JsonNode> entry(Object value, JsonNode json) {
        return Map.entry(value, json);
    }
}
